//! Reference of the configuration, made of its types.
//!
//! The schema that the types derive has their keys and their doc comments. The default
//! configuration has the defaults.

use std::collections::HashMap;
use std::slice;

use anyhow::Context;
use schemars::schema_for;
use serde::Serialize;
use serde_json::Value;

use crate::config::ClewConfig;

/// A key of the configuration.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigKey {
    /// Name with the names of its tables, separated by dots. A name of a table ends with `[]` if
    /// there is a list of such tables.
    key: String,
    /// Type of the value, or of each value of a list.
    #[serde(rename = "type")]
    kind: Kind,
    is_list: bool,
    /// Values that are allowed, if they are a closed set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    choices: Vec<Choice>,
    is_required: bool,
    /// Default as JSON; `null` if the key is absent by default.
    default: Value,
    /// Doc comment.
    meaning: String,
    /// Keys of a table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<ConfigKey>,
    /// First table that has the same keys, if this one is absent or empty by default.
    #[serde(skip)]
    same_as: Option<String>,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Table,
}

/// One of the values that a key allows.
#[derive(Clone, Debug, Serialize)]
struct Choice {
    value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    meaning: String,
}

/// Returns the keys and sections of the configuration, in alphabetical order. Tables contain their
/// keys, in the order of declaration.
///
/// # Errors
/// Returns an error if the configuration has a type that this cannot describe.
pub fn keys() -> anyhow::Result<Vec<ConfigKey>> {
    let schema = schema_for!(ClewConfig).to_value();
    let defaults = serde_json::to_value(ClewConfig::default())?;
    Reader { schema: &schema, described: HashMap::new() }.sections(&defaults)
}

/// Reader of a schema.
struct Reader<'s> {
    schema: &'s Value,
    /// Tables that were described already, by the names of their types.
    described: HashMap<&'s str, String>,
}

/// A schema without references and `null`.
struct Resolved<'s> {
    schema: &'s Value,
    /// Name of its type, if it has one.
    name: Option<&'s str>,
    is_list: bool,
    /// Whether the value may be absent, or is a list, which may be empty.
    is_optional: bool,
}

impl<'s> Reader<'s> {
    fn sections(&mut self, defaults: &Value) -> anyhow::Result<Vec<ConfigKey>> {
        let mut sections = self.table("", self.schema, Some(defaults))?;
        for section in sections.iter_mut().filter(|section| section.kind == Kind::Table) {
            let declared = &self.schema["properties"][&section.key];
            let resolved = self.resolve(declared)?;
            // The type of a section says more than the field that holds it.
            if !resolved.is_optional {
                let title = format!("Section `{}`: ", section.key);
                let text = text(resolved.schema);
                section.meaning = capitalised(text.strip_prefix(&title).unwrap_or(&text));
            }
        }
        Ok(sections)
    }

    /// Reads the keys of the table `name`. `defaults` is its default, if it is there by default.
    fn table(
        &mut self,
        name: &str,
        table: &'s Value,
        defaults: Option<&Value>,
    ) -> anyhow::Result<Vec<ConfigKey>> {
        let properties = table["properties"].as_object().context("a table has no keys")?;
        let required: Vec<&str> =
            table["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut declared: Vec<(&String, &Value)> = properties.iter().collect();
        if name.is_empty() {
            // So that the order does not depend on which types the sections are declared in.
            declared.sort_by_key(|(key, _)| *key);
        }
        declared
            .into_iter()
            .map(|(key, schema)| {
                let default = defaults.map_or(&schema["default"], |defaults| &defaults[key]);
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                self.key(name, schema, default, required.contains(&key.as_str()))
            })
            .collect()
    }

    fn key(
        &mut self,
        key: String,
        schema: &'s Value,
        default: &Value,
        is_required: bool,
    ) -> anyhow::Result<ConfigKey> {
        let resolved = self.resolve(schema)?;
        let kind = match type_of(resolved.schema) {
            _ if resolved.schema["oneOf"].is_array() => Kind::Text,
            Some("string") => Kind::Text,
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            Some("object") => Kind::Table,
            _ => anyhow::bail!("the type of `{key}` has no description"),
        };
        let (mut keys, mut same_as) = (Vec::new(), None);
        if kind == Kind::Table {
            if let (true, Some(name)) = (resolved.is_optional, resolved.name) {
                same_as = self.described.get(name).cloned();
                self.described.entry(name).or_insert_with(|| key.clone());
            }
            let name = if resolved.is_list { format!("{key}[]") } else { key.clone() };
            keys = self.table(&name, resolved.schema, default.is_object().then_some(default))?;
        }
        Ok(ConfigKey {
            kind,
            is_list: resolved.is_list,
            choices: choices(resolved.schema),
            is_required,
            default: default.clone(),
            meaning: text(schema),
            keys,
            same_as,
            key,
        })
    }

    fn resolve(&self, schema: &'s Value) -> anyhow::Result<Resolved<'s>> {
        let mut resolved = Resolved { schema, name: None, is_list: false, is_optional: false };
        loop {
            let schema = resolved.schema;
            if let Some(choices) = schema["anyOf"].as_array() {
                resolved.is_optional = true;
                let is_value = |choice: &&Value| choice["type"] != "null";
                resolved.schema =
                    choices.iter().find(is_value).context("a key has no value but `null`")?;
            } else if let Some(name) = schema["$ref"].as_str() {
                let name = name.trim_start_matches("#/$defs/");
                resolved.name = Some(name);
                resolved.schema =
                    self.schema["$defs"].get(name).context("a type has no definition")?;
            } else if type_of(schema) == Some("array") {
                (resolved.is_list, resolved.is_optional) = (true, true);
                resolved.schema = &schema["items"];
            } else {
                return Ok(resolved);
            }
        }
    }
}

/// Returns the name of the schema's type, beside `null`.
fn type_of(schema: &Value) -> Option<&str> {
    let types = schema["type"].as_array().map_or(slice::from_ref(&schema["type"]), Vec::as_slice);
    types.iter().filter_map(Value::as_str).find(|name| *name != "null")
}

fn choices(schema: &Value) -> Vec<Choice> {
    let alternatives = schema["oneOf"].as_array().map_or(slice::from_ref(schema), Vec::as_slice);
    let choices = alternatives.iter().flat_map(|alternative| {
        let constant = alternative.get("const");
        let meaning = constant.map(|_| text(alternative)).unwrap_or_default();
        let values =
            constant.into_iter().chain(alternative["enum"].as_array().into_iter().flatten());
        values
            .filter_map(Value::as_str)
            .map(move |value| Choice { value: value.to_owned(), meaning: meaning.clone() })
    });
    choices.collect()
}

/// Returns the doc comment in one line.
fn text(schema: &Value) -> String {
    clew_text::one_line(schema["description"].as_str().unwrap_or_default())
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Returns the reference as Markdown: a section for each table, and one before them for the
/// other keys.
pub fn markdown(keys: &[ConfigKey]) -> String {
    let (sections, single): (Vec<&ConfigKey>, Vec<&ConfigKey>) =
        keys.iter().partition(|key| key.kind == Kind::Table);
    let mut text = format!("### Top-level keys\n\n{HEAD}");
    single.into_iter().for_each(|key| rows(key, &mut text));
    for section in sections {
        text.push_str(&format!("\n### `{}`\n\n{}", section.key, section.meaning));
        match &section.same_as {
            Some(other) => text.push_str(&format!(" Its keys are those of `{other}`.\n")),
            None => {
                text.push_str(&format!("\n\n{HEAD}"));
                section.keys.iter().for_each(|key| rows(key, &mut text));
            }
        }
    }
    text
}

const HEAD: &str = "| key | value | default | meaning |\n|---|---|---|---|\n";

/// Adds the row of a key, and those of its keys.
fn rows(key: &ConfigKey, text: &mut String) {
    let mut meaning = key.meaning.clone();
    for choice in key.choices.iter().filter(|choice| !choice.meaning.is_empty()) {
        meaning.push_str(&format!(" `{}`: {}", choice.value, choice.meaning));
    }
    if let Some(other) = &key.same_as {
        meaning.push_str(&format!(" Its keys are those of `{other}`."));
    }
    let cells = [format!("`{}`", key.key), value(key), default(key), meaning];
    text.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    if key.same_as.is_none() {
        key.keys.iter().for_each(|key| rows(key, text));
    }
}

fn value(key: &ConfigKey) -> String {
    let choices: Vec<String> =
        key.choices.iter().map(|choice| format!("`{}`", choice.value)).collect();
    let one = match (choices.as_slice(), key.kind) {
        ([first @ .., last], _) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        (_, Kind::Text) => "text".to_owned(),
        (_, Kind::Integer) => "integer".to_owned(),
        (_, Kind::Number) => "number".to_owned(),
        (_, Kind::Boolean) => "boolean".to_owned(),
        (_, Kind::Table) => "table".to_owned(),
    };
    match (key.is_list, choices.is_empty()) {
        (false, _) => one,
        (true, true) => format!("list of {one}s"),
        (true, false) => format!("list of {one}"),
    }
}

fn default(key: &ConfigKey) -> String {
    match &key.default {
        _ if key.is_required => "required".to_owned(),
        Value::Null => "none".to_owned(),
        Value::Object(_) => String::new(),
        Value::String(text) if !text.is_empty() => format!("`{text}`"),
        Value::Number(number) if key.key.ends_with("_bytes") => {
            let size = number.as_u64().and_then(human_size);
            size.map_or_else(|| format!("`{number}`"), |size| format!("`{number}` ({size})"))
        }
        other => format!("`{other}`"),
    }
}

/// Returns a number of bytes in the largest unit that divides it. Returns `None` for 0 and for
/// numbers that no unit divides: no other writing says more of them.
fn human_size(bytes: u64) -> Option<String> {
    if bytes == 0 {
        return None;
    }
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let (unit, shift) = units.into_iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift)?;
    Some(format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::{Map, json};

    use super::*;

    const BEGINNING: &str = "<!-- `make config-reference` writes what follows. -->\n";
    const END: &str = "<!-- End of what it writes. -->\n";
    /// Names of keys that take an address and no other text, and a value of them.
    const ADDRESSES: [&str; 3] = ["address", "advertise", "peers"];
    const ADDRESS: &str = "http://host:1";

    /// Compares the page with the types, or writes it with `CLEW_UPDATE_REFERENCE=1`.
    #[test]
    fn the_page_of_the_configuration_reference_is_current() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let old = std::fs::read_to_string(&page).unwrap();
        let (head, rest) = old.split_once(BEGINNING).unwrap();
        let (_, tail) = rest.split_once(END).unwrap();
        let new = format!("{head}{BEGINNING}\n{}\n{END}{tail}", markdown(&keys().unwrap()));
        if std::env::var_os("CLEW_UPDATE_REFERENCE").is_some() {
            std::fs::write(&page, new).unwrap();
            return;
        }
        let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
        assert!(
            old == new,
            "docs/configuration.md is not what the types say; `make config-reference` writes it. First difference: \
             {differs:#?}"
        );
    }

    /// Returns a configuration in which every key of the reference is set.
    fn everything(keys: &[ConfigKey]) -> Value {
        let set = keys.iter().map(|key| {
            let (_, name) = key.key.rsplit_once('.').unwrap_or(("", key.key.as_str()));
            let value = match (key.kind, key.choices.first()) {
                (Kind::Table, _) => everything(&key.keys),
                _ if !key.is_list && !key.default.is_null() => key.default.clone(),
                (_, Some(choice)) => json!(choice.value),
                (Kind::Text, None) if ADDRESSES.contains(&name) => json!(ADDRESS),
                (Kind::Text, None) => json!("a"),
                (Kind::Integer | Kind::Number, None) => json!(1),
                (Kind::Boolean, None) => json!(true),
            };
            (name.to_owned(), if key.is_list { json!([value]) } else { value })
        });
        Value::Object(set.collect::<Map<String, Value>>())
    }

    /// Collects the names of the keys in a configuration, as the reference has them.
    fn set(table: &Value, prefix: &str, names: &mut BTreeSet<String>) {
        for (key, value) in table.as_object().unwrap() {
            let name = format!("{prefix}{key}");
            match value {
                Value::Object(_) => set(value, &format!("{name}."), names),
                Value::Array(items) if items.first().is_some_and(Value::is_object) => {
                    set(&items[0], &format!("{name}[]."), names);
                }
                _ => {}
            }
            names.insert(name);
        }
    }

    fn described(keys: &[ConfigKey], names: &mut BTreeSet<String>) {
        for key in keys {
            names.insert(key.key.clone());
            described(&key.keys, names);
        }
    }

    #[test]
    fn the_reference_has_the_keys_that_the_program_takes_and_shows_and_no_others() {
        let keys = keys().unwrap();
        let mut in_reference = BTreeSet::new();
        described(&keys, &mut in_reference);
        let shown = |config: &ClewConfig| {
            let shown = clew_runtime::config::render(config).unwrap();
            let mut names = BTreeSet::new();
            set(&toml::from_str(&shown).unwrap(), "", &mut names);
            names
        };
        // A key that no table has would be refused here, or not be shown.
        let everything = everything(&keys);
        let full = ClewConfig {
            node: serde_json::from_value(everything.clone()).unwrap(),
            roles: serde_json::from_value(everything).unwrap(),
        };
        assert_eq!(shown(&full), in_reference);
        let by_default = shown(&ClewConfig::default());
        assert!(by_default.is_subset(&in_reference), "{:?}", by_default.difference(&in_reference));
    }

    #[test]
    fn every_key_says_what_it_is_in_plain_words() {
        fn check(keys: &[ConfigKey]) {
            for key in keys {
                let text = &key.meaning;
                assert!(text.ends_with('.'), "`{}` needs a doc comment of sentences", key.key);
                assert!(!text.contains("[`") && !text.contains("Section `"), "{}: {text}", key.key);
                check(&key.keys);
            }
        }
        check(&keys().unwrap());
    }

    #[test]
    fn types_defaults_and_sizes_are_those_of_the_configuration() {
        let text = markdown(&keys().unwrap());
        let row = |key: &str| {
            let start = format!("| `{key}` | ");
            let row = text.lines().find_map(|line| line.strip_prefix(&start));
            row.unwrap_or_else(|| panic!("there is no row of `{key}`"))
        };
        let beginnings = [
            ("shutdown_secs", "integer | `30` | Maximum duration"),
            ("retriever.accept_queue_bytes", "integer | `67108864` (64 MiB) | "),
            ("encoder.device", "text | `cpu` | "),
            ("encoder.precision", "`auto`, `float32` or `bfloat16` | `auto` | "),
            (
                "generator.endpoint.structured_output",
                "`json_schema`, `json_object` or `prompt` | `json_schema` | ",
            ),
            ("reranker.endpoint.window", "integer | `512` | "),
            ("generator.local.model", "text | required | "),
            ("generator.fallback", "list of tables | `[]` | "),
            ("cluster.members[].roles", "list of `gateway`, "),
            ("telemetry.trace_ratio", "number | `1.0` | "),
            ("auth.keys_file", "text | none | "),
        ];
        for (key, beginning) in beginnings {
            assert!(row(key).starts_with(beginning), "{key}: {}", row(key));
        }
        assert!(row("generator.fallback").contains("those of `generator.endpoint`"));
        assert!(!text.contains("`generator.fallback[]."), "the keys are there twice");
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_divides_them() {
        let shown = |bytes: u64| human_size(bytes).unwrap_or_default();
        assert_eq!([1 << 10, 192 << 10, 1025 << 10].map(shown), ["1 KiB", "192 KiB", "1025 KiB"]);
        assert_eq!([1 << 20, 1 << 30, 1 << 40].map(shown), ["1 MiB", "1 GiB", "1024 GiB"]);
        assert!([0, 1, 1000, 1023, u64::MAX].into_iter().all(|bytes| human_size(bytes).is_none()));
    }
}
