//! `docs/openapi.json` describes every call below `/api`. It is made of the proto files here, and
//! committed, so that tools can read it without a server.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clew_auth::METHODS;
use clew_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    MethodDescriptor,
};
use serde_json::{Map, Value, json};

const INTRODUCTION: &str = "Long-term memory for applications of language models. Each call is a POST with the message \
    as JSON. An unknown field is refused. Fields with their default values are left out of responses. Integers of 64 bits \
    are texts in responses, and texts or numbers in requests.";

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

/// Compares the committed file with the proto files, or writes it with `CLEW_UPDATE_REFERENCE=1`.
#[test]
fn the_description_of_the_calls_is_current() {
    let generated = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("CLEW_UPDATE_REFERENCE").is_some() {
        std::fs::write(committed(), generated).unwrap();
        return;
    }
    let there = std::fs::read_to_string(committed()).unwrap();
    assert!(there == generated, "docs/openapi.json is not what proto/ says; run `make openapi`");
}

#[test]
fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
    fn collect<'a>(value: &'a Value, references: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(entries) => {
                references.extend(entries.get("$ref").and_then(Value::as_str));
                entries.values().for_each(|value| collect(value, references));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
    let document = document();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let names: BTreeSet<_> = schemas.keys().map(|name| reference_to(name)).collect();
    assert_eq!(references, names.iter().map(String::as_str).collect());
}

/// Returns the whole description.
fn document() -> Value {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    let mut services = Map::new();
    for (path, _) in METHODS.iter().filter(|(path, _)| path.starts_with("/clew.")) {
        let (service, name) = path[1..].split_once('/').unwrap();
        let service = pool.get_service_by_name(service).unwrap();
        let method = service.methods().find(|method| method.name() == name).unwrap();
        // HTTP has no form for a stream of requests.
        if !method.is_client_streaming() {
            paths
                .insert(format!("/api{path}"), json!({ "post": operation(&method, &mut schemas) }));
        }
        let about = comment(&service.parent_file(), service.path());
        services.insert(service.name().to_owned(), Value::from(about));
    }
    schemas.finish();
    let tags: Vec<Value> = services
        .into_iter()
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .collect();
    schemas.done.insert("Error".to_owned(), error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Clew",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRODUCTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "tags": tags,
        "security": [{ "key": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.done,
        },
    })
}

fn operation(method: &MethodDescriptor, schemas: &mut Schemas) -> Value {
    let about = comment(&method.parent_service().parent_file(), method.path());
    let summary = about.split_inclusive(". ").next().unwrap_or_default().trim_end();
    let answer = schemas.message(&method.output());
    let (kinds, description): (&[&str], _) = match method.is_server_streaming() {
        false => (&["application/json"], "The answer."),
        true => (
            &["application/x-ndjson", "text/event-stream"],
            "The messages as they come: a line of JSON for each, or an event if `Accept` asks for them. A stream that \
             fails ends with `{\"error\": …}`, or with an event named `error`.",
        ),
    };
    let content: Map<String, Value> =
        kinds.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": answer }))).collect();
    json!({
        "operationId": format!("{}_{}", method.parent_service().name(), method.name()),
        "tags": [method.parent_service().name()],
        "summary": summary,
        "description": about,
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": schemas.message(&method.input()) } },
        },
        "responses": {
            "200": { "description": description, "content": content },
            "default": {
                "description": "The call failed.",
                "content": { "application/json": { "schema": { "$ref": reference_to("Error") } } },
            },
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "A call that failed. The status follows from `code`.",
        "properties": {
            "code": { "type": "string", "description": "Code of gRPC, in lower case." },
            "message": { "type": "string", "description": "What was expected, what came and what to do." },
            "reason": { "type": "string", "description": "Stable upper-case reason to branch on." },
            "violations": {
                "type": "array",
                "description": "The refused fields.",
                "items": {
                    "type": "object",
                    "properties": {
                        "field": { "type": "string" },
                        "description": { "type": "string" },
                    },
                },
            },
            "details": {
                "type": "array",
                "description": "Messages of `google.rpc`.",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": { "type": "string" },
                        "value": { "type": "string", "contentEncoding": "base64" },
                    },
                },
            },
        },
        "required": ["code", "message", "reason"],
    })
}

fn reference_to(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// The schemas of all types that the calls use.
#[derive(Default)]
struct Schemas {
    done: BTreeMap<String, Value>,
    due: Vec<MessageDescriptor>,
}

impl Schemas {
    /// Makes the schemas of all types that were named.
    fn finish(&mut self) {
        while let Some(message) = self.due.pop() {
            if !self.done.contains_key(message.full_name()) {
                // First, because a message may contain itself.
                self.done.insert(message.full_name().to_owned(), Value::Null);
                let schema = self.object(&message);
                self.done.insert(message.full_name().to_owned(), schema);
            }
        }
    }

    /// Returns the schema of a field or an operation that has a message.
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        match message.full_name() {
            "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Duration" => {
                json!({ "type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$" })
            }
            name => {
                assert!(!name.starts_with("google."), "say how JSON has a {name}");
                self.due.push(message.clone());
                json!({ "$ref": reference_to(name) })
            }
        }
    }

    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
            let about = comment(&message.parent_file(), field.path());
            let mut schema = self.field(&field);
            if !about.is_empty() {
                schema["description"] = Value::from(about);
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let mut about = comment(&message.parent_file(), message.path());
        for choice in message.oneofs() {
            let names: Vec<String> =
                choice.fields().map(|field| format!("`{}`", field.json_name())).collect();
            if names.len() > 1 {
                about = format!("{about} At most one of {} is set.", names.join(", "));
            }
        }
        json!({
            "type": "object",
            "description": about.trim(),
            "properties": properties,
            "additionalProperties": false,
        })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { panic!("{field:?}") };
            let values = self.value(entry.map_entry_value_field().kind());
            return json!({ "type": "object", "additionalProperties": values });
        }
        let value = self.value(field.kind());
        if field.is_list() { json!({ "type": "array", "items": value }) } else { value }
    }

    fn value(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Double => json!({ "type": "number", "format": "double" }),
            Kind::Float => json!({ "type": "number", "format": "float" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({ "type": "integer", "format": "int32" })
            }
            Kind::Uint32 | Kind::Fixed32 => {
                json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                json!({ "type": ["string", "integer"], "format": "int64" })
            }
            Kind::Uint64 | Kind::Fixed64 => {
                json!({ "type": ["string", "integer"], "format": "uint64" })
            }
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Message(message) => self.message(&message),
            Kind::Enum(choice) => self.choice(&choice),
        }
    }

    fn choice(&mut self, choice: &EnumDescriptor) -> Value {
        let name = choice.full_name().to_owned();
        let schema = self.done.entry(name.clone()).or_insert_with(|| {
            let about = comment(&choice.parent_file(), choice.path());
            let values = choice.values().map(|value| {
                let about = comment(&choice.parent_file(), value.path());
                format!("`{}`: {about}", value.name())
            });
            let about: Vec<String> = std::iter::once(about).chain(values).collect();
            let names: Vec<String> = choice.values().map(|value| value.name().to_owned()).collect();
            json!({ "type": "string", "enum": names, "description": about.join("\n") })
        });
        assert!(schema.is_object());
        json!({ "$ref": reference_to(&name) })
    }
}

/// Returns the comment before what is at `path` of a file, on one line.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let source = file.file_descriptor_proto().source_code_info.as_ref();
    let location = source.and_then(|source| source.location.iter().find(|at| at.path == path));
    let lines = location.map_or("", |location| location.leading_comments());
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}
