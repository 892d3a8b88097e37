//! The tools, as agents see them.

mod ask;
mod explore_graph;
mod fetch;
mod forget;
mod list_corpora;
mod recall;
mod remember;
mod search;
mod told;

use std::sync::Arc;

use clew_core::{CorpusName, Error};
use clew_proto::auth::v1::Scope;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::caller::Caller;

/// A tool for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Finds documents.
    Search,
    /// Returns a document.
    Fetch,
    /// Answers a question from documents.
    Ask,
    /// Keeps what a user says.
    Remember,
    /// Returns what a user said.
    Recall,
    /// Lists the corpora.
    ListCorpora,
    /// Returns a part of the graph of entities.
    ExploreGraph,
    /// Forgets documents and turns.
    Forget,
}

impl Tool {
    /// All tools, in the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::Search,
        Self::Fetch,
        Self::Ask,
        Self::Remember,
        Self::Recall,
        Self::ListCorpora,
        Self::ExploreGraph,
        Self::Forget,
    ];

    /// Returns the definition of the tool, without the argument `corpus`.
    fn text(self) -> &'static str {
        match self {
            Self::Search => include_str!("../tools/search.json"),
            Self::Fetch => include_str!("../tools/fetch.json"),
            Self::Ask => include_str!("../tools/ask.json"),
            Self::Remember => include_str!("../tools/remember.json"),
            Self::Recall => include_str!("../tools/recall.json"),
            Self::ListCorpora => include_str!("../tools/list_corpora.json"),
            Self::ExploreGraph => include_str!("../tools/explore_graph.json"),
            Self::Forget => include_str!("../tools/forget.json"),
        }
    }

    /// Returns the scopes that a key must have for the services that the tool calls.
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Search
            | Self::Fetch
            | Self::Ask
            | Self::Recall
            | Self::ListCorpora
            | Self::ExploreGraph => &[Scope::Read],
            // They look at what is there before they change it.
            Self::Remember | Self::Forget => &[Scope::Read, Scope::Write],
        }
    }

    /// Returns the definition of the tool. Where the path of a request does not name a corpus, an
    /// argument may.
    ///
    /// # Panics
    /// Panics if the definition in the program is broken, which its tests find.
    pub fn definition(self, pinned: bool) -> rmcp::model::Tool {
        let mut tool: rmcp::model::Tool =
            serde_json::from_str(self.text()).expect("the definition is a tool's");
        if !pinned && self != Self::ListCorpora {
            let mut schema = JsonObject::clone(&tool.input_schema);
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            properties.expect("the schema has properties").insert(
                "corpus".to_owned(),
                json!({
                    "type": "string",
                    "description": "Name of the corpus, as list_corpora returns it. Needed only if there are several.",
                }),
            );
            tool.input_schema = Arc::new(schema);
        }
        tool
    }

    /// Runs the tool and returns its result.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the arguments are not as the definition
    /// says, and the errors of the services.
    pub async fn run(self, caller: &Caller, arguments: JsonObject) -> Result<Value, Error> {
        if self == Self::ListCorpora {
            let list_corpora::Arguments {} = parsed(arguments)?;
            return list_corpora::run(caller).await;
        }
        let (named, arguments) = corpus_of(arguments)?;
        // A call with wrong arguments is refused before it calls anything.
        match self {
            Self::Search => search::run(caller, named, parsed(arguments)?).await,
            Self::Fetch => fetch::run(caller, named, parsed(arguments)?).await,
            Self::Ask => ask::run(caller, named, parsed(arguments)?).await,
            Self::Remember => remember::run(caller, named, parsed(arguments)?).await,
            Self::Recall => recall::run(caller, named, parsed(arguments)?).await,
            Self::ExploreGraph => explore_graph::run(caller, named, parsed(arguments)?).await,
            Self::Forget => forget::run(caller, named, parsed(arguments)?).await,
            Self::ListCorpora => Err(Error::internal("a tool was run as another one")),
        }
    }
}

/// Takes the name of the corpus from the arguments.
fn corpus_of(mut arguments: JsonObject) -> Result<(Option<CorpusName>, JsonObject), Error> {
    let named = match arguments.remove("corpus") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.parse()?),
        Some(_) => return Err(Error::invalid("corpus", "expected a string")),
    };
    Ok((named, arguments))
}

/// Parses the arguments of a tool.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Error> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Error::invalid(
            "arguments",
            format!("expected arguments as the tool's schema says: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    fn object(value: Value) -> JsonObject {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    /// Checks that every object of a schema says which properties it has and needs, so that clients
    /// refuse what the server would.
    fn check_closed(path: &str, schema: &Value) {
        if schema["type"] == "object" {
            let closed = &schema["additionalProperties"];
            assert!(closed == false || closed["type"] == "string", "{path} is open: {schema}");
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check_closed(&format!("{path}.{name}"), property);
        }
        if let Some(items) = schema.get("items") {
            check_closed(&format!("{path}[]"), items);
        }
    }

    #[test]
    fn every_tool_is_defined_whole() {
        for tool in Tool::ALL {
            let defined = tool.definition(true);
            let Some(output) = defined.output_schema.clone() else { panic!("{tool:?}") };
            for schema in [&defined.input_schema, &output] {
                let schema = Value::Object(JsonObject::clone(schema));
                assert_eq!(schema["type"], "object", "{tool:?}");
                check_closed(&defined.name, &schema);
                // Models' interfaces refuse alternatives at the top of a schema.
                for keyword in ["oneOf", "anyOf", "allOf", "$ref", "$defs"] {
                    assert!(schema.get(keyword).is_none(), "{tool:?}: {keyword}");
                }
            }
            let Some(annotations) = defined.annotations.clone() else { panic!("{tool:?}") };
            let reads = annotations.read_only_hint;
            assert_eq!(reads, Some(tool.scopes() == [Scope::Read]), "{tool:?}");
            assert_eq!(annotations.open_world_hint, Some(false), "{tool:?}");
            let destroys = annotations.destructive_hint == Some(true);
            assert_eq!(destroys, tool == Tool::Forget, "{tool:?}");
            assert!(defined.title.is_some() && defined.description.is_some(), "{tool:?}");
        }
    }

    #[test]
    fn names_are_those_that_agents_were_told() {
        let names = Tool::ALL.map(|tool| tool.definition(false).name.into_owned());
        let expected = [
            "search",
            "fetch",
            "ask",
            "remember",
            "recall",
            "list_corpora",
            "explore_graph",
            "forget",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_corpus_is_an_argument_only_where_the_path_names_none() {
        for tool in Tool::ALL {
            let has = |pinned: bool| {
                let schema = tool.definition(pinned).input_schema;
                schema["properties"].get("corpus").is_some()
            };
            assert_eq!([has(true), has(false)], [false, tool != Tool::ListCorpora], "{tool:?}");
        }
    }

    /// ChatGPT's connectors and deep research refuse anything else.
    #[test]
    fn search_and_fetch_take_one_string() {
        for (tool, argument) in [(Tool::Search, "query"), (Tool::Fetch, "id")] {
            let schema = Value::Object(JsonObject::clone(&tool.definition(true).input_schema));
            assert_eq!(schema["required"], json!([argument]));
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            assert_eq!(properties.keys().collect::<Vec<_>>(), [argument]);
            assert_eq!(properties[argument]["type"], "string");
        }
    }

    /// An agent pays for the definitions with every conversation.
    #[test]
    fn all_definitions_together_are_short() {
        let tools = Tool::ALL.map(|tool| tool.definition(false));
        let bytes = serde_json::to_string(&tools).map(|text| text.len()).unwrap_or(usize::MAX);
        assert!(bytes < 14_000, "{bytes} bytes");
    }

    #[test]
    fn arguments_that_the_schema_does_not_have_are_refused_by_name() {
        let refused = |arguments: Value| {
            let error = parsed::<search::Arguments>(object(arguments)).err();
            error.map(|error| (error.kind(), error.message().to_owned()))
        };
        assert_eq!(refused(json!({ "query": "bees" })), None);
        for (arguments, named) in [
            (json!({}), "query"),
            (json!({ "query": "bees", "k": 5 }), "`k`"),
            (json!({ "query": 5 }), "string"),
        ] {
            let (kind, message) = refused(arguments).unwrap_or_else(|| panic!("{named}"));
            assert_eq!(kind, ErrorKind::InvalidInput);
            assert!(message.contains(named), "{message}");
        }
    }

    #[test]
    fn the_corpus_is_taken_from_the_arguments() {
        let taken = |arguments: Value| corpus_of(object(arguments));
        let (named, rest) = taken(json!({ "corpus": "notes", "query": "x" })).unwrap();
        assert_eq!(named.map(|name| name.to_string()).as_deref(), Some("notes"));
        assert_eq!(Value::Object(rest), json!({ "query": "x" }));
        assert!(taken(json!({ "corpus": null })).is_ok_and(|(named, _)| named.is_none()));
        for wrong in [json!({ "corpus": 5 }), json!({ "corpus": "No Such Name" })] {
            assert_eq!(taken(wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
