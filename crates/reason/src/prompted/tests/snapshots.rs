//! Prompts as they are sent, and their versions.
//!
//! `CLEW_UPDATE_PROMPTS=1 cargo test --package clew-reason --lib prompted::` writes the snapshots
//! and adds new versions to the table. It still refuses a changed text under a version that the
//! table already has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use super::super::prompt::{PromptFile, render};
use super::super::*;
use super::samples::{Visitor, visit_all};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts")
}

fn updates() -> bool {
    std::env::var_os("CLEW_UPDATE_PROMPTS").is_some()
}

/// A visitor that collects every prompt with its rendered text and the schema that it requests.
#[derive(Default)]
struct Collected(BTreeMap<&'static str, (PromptFile, String)>);

impl Visitor for Collected {
    fn visit<A: Act<Output: Debug + PartialEq> + Debug>(&mut self, act: A, _: &[&str]) {
        let file = act.prompt();
        let rendered = render(file, &act.values()).unwrap();
        let request = GenerationRequest {
            messages: rendered.clone().into_messages(),
            max_tokens: act.max_tokens(),
            format: act.format(),
            ..GenerationRequest::default()
        };
        request.check().unwrap();
        let format = match act.format() {
            ReplyFormat::Text => "text".to_owned(),
            ReplyFormat::Choice(choices) => choices.join(" | "),
            ReplyFormat::JsonSchema(schema) => schema,
        };
        let text = format!(
            "=== system ===\n{}\n=== user ===\n{}\n=== reply, at most {} tokens ===\n{format}\n",
            rendered.system,
            rendered.user,
            act.max_tokens()
        );
        assert!(self.0.insert(file.name, (file, text)).is_none(), "{} twice", file.name);
    }
}

fn collected() -> BTreeMap<&'static str, (PromptFile, String)> {
    let mut collected = Collected::default();
    visit_all(&mut collected);
    collected.0
}

#[test]
fn every_prompt_of_the_folder_belongs_to_an_act() {
    let names = std::fs::read_dir(folder()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".md").map(str::to_owned)
    });
    let used: BTreeSet<String> = collected().into_keys().map(str::to_owned).collect();
    assert_eq!(names.collect::<BTreeSet<String>>(), used);
}

#[test]
fn prompts_render_as_they_did() {
    for (name, (_, text)) in collected() {
        let path = folder().join("rendered").join(name).with_extension("txt");
        if updates() {
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, known, "`{name}`; see the head of this file");
    }
}

#[test]
fn a_prompt_changes_with_its_version_only() {
    let path = folder().join("versions.txt");
    let table = std::fs::read_to_string(&path).unwrap_or_default();
    let mut known: BTreeMap<(String, u32), String> = BTreeMap::new();
    for line in table.lines() {
        let [name, version, hash] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("expected a name, a version and a hash in `{line}`")
        };
        known.insert((name.to_owned(), version.parse().unwrap()), hash.to_owned());
    }
    for (name, (file, _)) in collected() {
        let version = version(file);
        let hash = blake3::hash(file.content.as_bytes()).to_hex().to_string();
        let key = (name.to_owned(), version);
        if updates() {
            known.entry(key.clone()).or_insert_with(|| hash.clone());
        }
        let expected = known.get(&key);
        assert_eq!(expected, Some(&hash), "`{name}` changed: raise its version above {version}");
        let newest = known.keys().filter(|(other, _)| other == name).map(|(_, version)| *version);
        assert_eq!(newest.max(), Some(version), "`{name}` went back to an older version");
    }
    if updates() {
        let lines =
            known.iter().map(|((name, version), hash)| format!("{name} {version} {hash}\n"));
        std::fs::write(path, lines.collect::<String>()).unwrap();
    }
}

fn version(file: PromptFile) -> u32 {
    let line = file.content.lines().next().unwrap();
    line.strip_prefix("version: ").unwrap().parse().unwrap()
}
