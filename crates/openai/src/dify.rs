//! `POST /dify/retrieval`: the knowledge API of Dify, over a search.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use clew_client::name_of;
use clew_http::Failure;
use clew_proto::query::v1::{self as wire, Evidence, Filter, Operator, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::Json;
use crate::attributes::{compared, joined, negated, object, typed};
use crate::caller::Call;
use crate::passage::score;

/// Body of a request.
#[derive(Deserialize)]
struct Body {
    knowledge_id: String,
    query: String,
    retrieval_setting: Setting,
    metadata_condition: Option<Conditions>,
}

#[derive(Deserialize)]
struct Setting {
    top_k: u32,
    #[serde(default)]
    score_threshold: f32,
}

#[derive(Deserialize)]
struct Conditions {
    logical_operator: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    /// Names of attributes, of which Dify sends one.
    name: Names,
    comparison_operator: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

/// Failure in the shape of Dify.
#[derive(Debug)]
pub(crate) struct DifyFailure(Failure);

impl From<Failure> for DifyFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for DifyFailure {
    fn into_response(self) -> Response {
        let Self(failure) = self;
        let body = json!({"error_code": error_code(&failure), "error_msg": failure.message});
        failure.respond_with(&body)
    }
}

/// Returns Dify's number for what failed, or the status where Dify has none.
fn error_code(failure: &Failure) -> u16 {
    match failure.http {
        StatusCode::UNAUTHORIZED => 1001,
        StatusCode::FORBIDDEN => 1002,
        StatusCode::NOT_FOUND => 2001,
        http => http.as_u16(),
    }
}

/// Returns passages of a corpus, the `knowledge_id`.
pub(crate) async fn retrieve(call: Result<Call, Failure>) -> Result<Json, DifyFailure> {
    let call = call?;
    let body: Body = call.body()?;
    let threshold = body.retrieval_setting.score_threshold;
    let request = search(body)?;
    let found = call.caller.queries().search(call.caller.request(request)).await;
    let found = found.map_err(failed)?.into_inner();
    Ok(Json(json!({"records": records(&found.evidence, threshold)})))
}

fn failed(status: Status) -> DifyFailure {
    let mut failure = Failure::from(status);
    // The name of a corpus that cannot be one is that of none.
    if failure.violations.iter().any(|at| at.field == "corpus") {
        (failure.http, failure.code) = (StatusCode::NOT_FOUND, Code::NotFound);
    }
    DifyFailure(failure)
}

fn search(body: Body) -> Result<SearchRequest, Failure> {
    let Body { knowledge_id, query, retrieval_setting, metadata_condition } = body;
    Ok(SearchRequest {
        corpus: knowledge_id,
        query,
        k: Some(retrieval_setting.top_k),
        filter: metadata_condition.map(filter).transpose()?,
        with_attributes: true,
        ..Default::default()
    })
}

/// Returns the filter of conditions on metadata, which are attributes.
fn filter(conditions: Conditions) -> Result<Filter, Failure> {
    let Conditions { logical_operator, conditions } = conditions;
    let is_any = match logical_operator.as_deref() {
        None | Some("and") => false,
        Some("or") => true,
        Some(other) => {
            let problem = format!("expected `and` or `or`, got `{other}`");
            return Err(Failure::invalid("metadata_condition.logical_operator", problem));
        }
    };
    if conditions.is_empty() {
        return Ok(Filter::default());
    }
    let conditions = conditions.into_iter().enumerate().map(condition);
    let condition = joined(conditions.collect::<Result<_, _>>()?, is_any);
    Ok(Filter { condition: Some(condition), ..Default::default() })
}

fn condition((place, condition): (usize, Condition)) -> Result<wire::Condition, Failure> {
    let Condition { name, comparison_operator, value } = condition;
    let at = |field: &str| format!("metadata_condition.conditions[{place}].{field}");
    let name = match name {
        Names::One(name) => name,
        Names::Several(names) => match <[String; 1]>::try_from(names) {
            Ok([name]) => name,
            Err(_) => return Err(Failure::invalid(&at("name"), "expected one name")),
        },
    };
    let unfit = |expected: &str| Failure::invalid(&at("value"), format!("expected {expected}"));
    let one = |operator| {
        let value = typed(&value).ok_or_else(|| unfit("a text, a number or a truth value"))?;
        Ok(compared(&name, operator, vec![value]))
    };
    // Dify sends numbers as texts, too.
    let number = |operator| {
        let parsed = value.as_str().and_then(|text| text.trim().parse().ok().map(Value::Number));
        let value = parsed.as_ref().unwrap_or(&value);
        let number = value.is_number().then(|| typed(value)).flatten();
        Ok(compared(&name, operator, vec![number.ok_or_else(|| unfit("a number"))?]))
    };
    let several = |operator| {
        let listed = match &value {
            Value::Array(values) => values.iter().map(typed).collect(),
            // A list as a text has commas between the values.
            Value::String(text) => {
                text.split(',').map(|one| typed(&Value::from(one.trim()))).collect()
            }
            _ => None,
        };
        Ok(compared(&name, operator, listed.ok_or_else(|| unfit("a list of values"))?))
    };
    match comparison_operator.as_str() {
        "contains" => one(Operator::Contains),
        "not contains" => one(Operator::Contains).map(negated),
        "is" => one(Operator::Eq),
        "is not" => one(Operator::Ne),
        "in" => several(Operator::In),
        "not in" => several(Operator::Nin),
        "empty" => Ok(negated(compared(&name, Operator::Exists, Vec::new()))),
        "not empty" => Ok(compared(&name, Operator::Exists, Vec::new())),
        "=" => number(Operator::Eq),
        "≠" => number(Operator::Ne),
        ">" | "after" => number(Operator::Gt),
        "<" | "before" => number(Operator::Lt),
        "≥" => number(Operator::Gte),
        "≤" => number(Operator::Lte),
        other => {
            let problem =
                format!("expected another operator than `{other}`, by which Clew cannot filter");
            Err(Failure::invalid(&at("comparison_operator"), problem))
        }
    }
}

/// Returns the records of passages with at least the score `threshold`, in the order of the search.
fn records(evidence: &[Evidence], threshold: f32) -> Vec<Value> {
    let good = evidence.iter().filter(|passage| score(passage) >= threshold);
    good.map(|passage| {
        // Never `null`, at which the pipeline of Dify breaks.
        let mut metadata = object(&passage.attributes);
        metadata.insert("document_id".to_owned(), Value::from(passage.document_id.as_str()));
        json!({
            "content": passage.text,
            "score": score(passage),
            "title": name_of(&passage.title, &passage.document_id),
            "metadata": metadata,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(conditions: Value) -> Result<SearchRequest, Failure> {
        let body = json!({
            "knowledge_id": "notes",
            "query": "backups",
            "retrieval_setting": {"top_k": 2, "score_threshold": 0.5},
            "metadata_condition": conditions,
        });
        search(serde_json::from_value(body).unwrap())
    }

    fn condition(operator: &str, value: Value) -> Value {
        json!({"conditions": [{"name": ["topic"], "comparison_operator": operator, "value": value}]})
    }

    #[test]
    fn a_request_is_a_search() {
        let request = searched(Value::Null).unwrap();
        assert_eq!((request.corpus.as_str(), request.query.as_str()), ("notes", "backups"));
        assert_eq!((request.k, request.filter), (Some(2), None));
    }

    #[test]
    fn every_operator_is_a_condition_or_refused_by_name() {
        let converted = |operator: &str, value: Value| {
            let filter =
                searched(condition(operator, value)).map(|request| request.filter.unwrap());
            let all = filter.map(|filter| filter.condition.unwrap())?;
            let Some(wire::condition::Kind::AllOf(mut parts)) = all.kind else { panic!("{all:?}") };
            Ok::<_, Failure>(parts.conditions.remove(0))
        };
        let is = |operator: Operator, value: Value| {
            compared("topic", operator, vec![typed(&value).unwrap()])
        };
        let text = || json!("travel");
        for (operator, value, expected) in [
            ("contains", text(), is(Operator::Contains, text())),
            ("not contains", text(), negated(is(Operator::Contains, text()))),
            ("is", text(), is(Operator::Eq, text())),
            ("is not", text(), is(Operator::Ne, text())),
            ("in", json!("travel"), is(Operator::In, text())),
            ("not in", json!(["travel"]), is(Operator::Nin, text())),
            ("empty", Value::Null, negated(compared("topic", Operator::Exists, Vec::new()))),
            ("not empty", Value::Null, compared("topic", Operator::Exists, Vec::new())),
            ("=", json!("7"), is(Operator::Eq, json!(7))),
            ("≠", json!(7), is(Operator::Ne, json!(7))),
            (">", json!(7.5), is(Operator::Gt, json!(7.5))),
            ("<", json!(7), is(Operator::Lt, json!(7))),
            ("≥", json!(7), is(Operator::Gte, json!(7))),
            ("≤", json!(7), is(Operator::Lte, json!(7))),
            ("before", json!(1_700_000_000), is(Operator::Lt, json!(1_700_000_000))),
            ("after", json!(1_700_000_000), is(Operator::Gt, json!(1_700_000_000))),
        ] {
            assert_eq!(converted(operator, value).unwrap(), expected, "{operator}");
        }
        for (operator, value, field) in [
            ("start with", text(), "comparison_operator"),
            ("end with", text(), "comparison_operator"),
            ("is", Value::Null, "value"),
            (">", text(), "value"),
            ("in", json!([{}]), "value"),
        ] {
            let refused = converted(operator, value).unwrap_err();
            let at = format!("metadata_condition.conditions[0].{field}");
            assert_eq!(refused.violations[0].field, at, "{operator}");
        }
        assert!(searched(json!({"logical_operator": "xor"})).is_err());
        let either = json!({"logical_operator": "or", "conditions": [
            {"name": "a", "comparison_operator": "empty"},
            {"name": "b", "comparison_operator": "empty"},
        ]});
        let either = searched(either).unwrap().filter.unwrap().condition.unwrap();
        assert!(
            matches!(either.kind, Some(wire::condition::Kind::AnyOf(parts)) if parts.conditions.len() == 2)
        );
        assert_eq!(searched(json!({"conditions": []})).unwrap().filter, Some(Filter::default()));
    }

    #[test]
    fn scores_are_cosines_and_metadata_is_never_null() {
        let passage = |title: &str, cosine: Option<f32>| Evidence {
            document_id: "a.md".to_owned(),
            title: title.to_owned(),
            text: "words".to_owned(),
            score: 9.0,
            dense_score: cosine,
            ..Default::default()
        };
        let found = [
            passage("Backups", Some(0.75)),
            passage("", Some(0.25)),
            passage("", None),
            passage("", Some(-0.5)),
        ];
        let all = records(&found, 0.0);
        let scores: Vec<_> = all.iter().map(|record| record["score"].as_f64().unwrap()).collect();
        assert_eq!(scores, [0.75, 0.25, 0.0, 0.0]);
        assert!(all.iter().all(|record| record["metadata"].is_object()));
        assert_eq!([&all[0]["title"], &all[1]["title"]], ["Backups", "a.md"]);
        assert_eq!(records(&found, 0.5).len(), 1);
    }
}
