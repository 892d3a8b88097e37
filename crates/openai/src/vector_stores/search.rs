//! `POST /v1/vector_stores/{id}/search`: passages of a corpus.

use std::collections::HashSet;

use axum::extract::Path;
use clew_client::name_of;
use clew_http::Failure;
use clew_proto::query::v1::{
    Condition, Evidence, Filter, Operator, SearchBatchRequest, SearchRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Json;
use crate::attributes::{compared, joined, object, typed};
use crate::caller::Call;
use crate::passage::score;
use crate::refusal::Refusal;

/// Maximum passages, and their number if the client says nothing.
const MOST: u32 = 50;
const DEFAULT: u32 = 10;
/// Maximum number of queries: as many as `SearchBatch` takes with [`MOST`] passages each.
const MOST_QUERIES: usize = 4;
/// Maximum depth of a filter, beyond which Clew refuses it anyway.
const MOST_LEVELS: usize = 16;

/// Body of a request. What else a client sends is ignored.
#[derive(Deserialize)]
struct Body {
    query: Value,
    max_num_results: Option<u32>,
    filters: Option<Value>,
    ranking_options: Option<Ranking>,
}

#[derive(Deserialize)]
struct Ranking {
    score_threshold: Option<f32>,
}

/// Returns the passages that match best.
pub(crate) async fn search(
    Path(id): Path<String>,
    call: Result<Call, Failure>,
) -> Result<Json, Refusal> {
    let call = call?;
    let body: Body = call.body()?;
    let threshold = body.ranking_options.as_ref().and_then(|ranking| ranking.score_threshold);
    let is_good = |passage: &&Evidence| score(passage) >= threshold.unwrap_or_default();
    let queries = queries(&body.query)?;
    let request = request(id, &queries, &body)?;
    let most = body.max_num_results.unwrap_or(DEFAULT) as usize;
    let found = call.caller.queries().search_batch(call.caller.request(request)).await;
    let found = found.map_err(Refusal::of_store)?.into_inner().results;
    let rankings: Vec<Vec<Evidence>> = found.into_iter().map(|one| one.evidence).collect();
    let passages = interleaved(rankings);
    let data: Vec<Value> = passages.iter().filter(is_good).take(most).map(passage).collect();
    Ok(Json(json!({
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": data,
        "has_more": false,
        "next_page": null,
    })))
}

/// Returns the queries: one text, or a list of them.
fn queries(query: &Value) -> Result<Vec<String>, Refusal> {
    let texts: Option<Vec<String>> = match query {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(texts) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    texts.filter(|texts| (1..=MOST_QUERIES).contains(&texts.len())).ok_or_else(|| {
        Refusal::param("query", format!("expected a text or a list of 1 to {MOST_QUERIES} texts"))
    })
}

fn request(corpus: String, queries: &[String], body: &Body) -> Result<SearchBatchRequest, Refusal> {
    let k = body.max_num_results.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&k) {
        return Err(Refusal::param("max_num_results", format!("expected 1 to {MOST}, got {k}")));
    }
    let filter = match &body.filters {
        None | Some(Value::Null) => None,
        Some(filters) => {
            let condition = Some(condition(filters, "filters", MOST_LEVELS)?);
            Some(Filter { condition, ..Default::default() })
        }
    };
    let search = |query: &String| SearchRequest {
        query: query.clone(),
        k: Some(k),
        filter: filter.clone(),
        with_attributes: true,
        ..Default::default()
    };
    Ok(SearchBatchRequest { corpus, searches: queries.iter().map(search).collect() })
}

/// Returns the condition of a filter of OpenAI, which came in `param`.
fn condition(filter: &Value, param: &str, levels: usize) -> Result<Condition, Refusal> {
    let at = |field: &str| format!("{param}.{field}");
    let Some(levels) = levels.checked_sub(1) else {
        return Err(Refusal::param(param, format!("expected at most {MOST_LEVELS} levels")));
    };
    let operator = match filter["type"].as_str() {
        Some(of @ ("and" | "or")) => {
            let parts = filter["filters"].as_array().filter(|parts| !parts.is_empty());
            let expected = || Refusal::param(at("filters"), "expected a list of filters");
            let parts = parts.ok_or_else(expected)?.iter().enumerate();
            let parts = parts
                .map(|(place, part)| condition(part, &format!("{param}.filters[{place}]"), levels));
            return Ok(joined(parts.collect::<Result<_, _>>()?, of == "or"));
        }
        Some("eq") => Operator::Eq,
        Some("ne") => Operator::Ne,
        Some("gt") => Operator::Gt,
        Some("gte") => Operator::Gte,
        Some("lt") => Operator::Lt,
        Some("lte") => Operator::Lte,
        Some("in") => Operator::In,
        Some("nin") => Operator::Nin,
        _ => {
            let problem = "expected one of eq, ne, gt, gte, lt, lte, in, nin, and, or";
            return Err(Refusal::param(at("type"), problem));
        }
    };
    let Some(key) = filter["key"].as_str() else {
        return Err(Refusal::param(at("key"), "expected the name of an attribute"));
    };
    let values = match &filter["value"] {
        Value::Array(values) => values.iter().map(typed).collect(),
        value => typed(value).map(|value| vec![value]),
    };
    let expected =
        || Refusal::param(at("value"), "expected a text, a number, a truth value or a list");
    Ok(compared(key, operator, values.ok_or_else(expected)?))
}

/// Returns the passages of several rankings by their ranks, each passage once.
fn interleaved(rankings: Vec<Vec<Evidence>>) -> Vec<Evidence> {
    let longest = rankings.iter().map(Vec::len).max().unwrap_or_default();
    let mut rankings: Vec<_> = rankings.into_iter().map(Vec::into_iter).collect();
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for _ in 0..longest {
        for passage in rankings.iter_mut().filter_map(Iterator::next) {
            if seen.insert(passage.chunk_id.clone()) {
                all.push(passage);
            }
        }
    }
    all
}

fn passage(passage: &Evidence) -> Value {
    json!({
        "file_id": passage.document_id,
        "filename": name_of(&passage.title, &passage.document_id),
        "score": score(passage),
        "attributes": object(&passage.attributes),
        "content": [{"type": "text", "text": passage.text}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: Value) -> Result<SearchBatchRequest, Value> {
        let body: Body = serde_json::from_value(body).unwrap();
        let queries = queries(&body.query).map_err(|refusal| refusal.body()["error"].clone())?;
        request("notes".to_owned(), &queries, &body)
            .map_err(|refusal| refusal.body()["error"].clone())
    }

    #[test]
    fn a_request_is_one_search_for_each_query() {
        let one = asked(json!({"query": "a"})).unwrap();
        assert_eq!((one.searches.len(), one.searches[0].k), (1, Some(10)));
        let two = asked(json!({"query": ["a", "b"], "max_num_results": 50})).unwrap();
        assert_eq!((two.searches[1].query.as_str(), two.searches[1].k), ("b", Some(50)));
        for (body, param) in [
            (json!({"query": []}), "query"),
            (json!({"query": vec!["a"; 5]}), "query"),
            (json!({"query": "a", "max_num_results": 51}), "max_num_results"),
            (json!({"query": "a", "filters": {"type": "like"}}), "filters.type"),
            (json!({"query": "a", "filters": {"type": "eq", "value": 1}}), "filters.key"),
            (json!({"query": "a", "filters": {"type": "eq", "key": "b"}}), "filters.value"),
            (json!({"query": "a", "filters": {"type": "and", "filters": []}}), "filters.filters"),
            (
                json!({"query": "a", "filters": {"type": "or", "filters": [{"type": "x"}]}}),
                "filters.filters[0].type",
            ),
        ] {
            assert_eq!(asked(body).unwrap_err()["param"], param);
        }
    }

    #[test]
    fn a_filter_is_a_condition() {
        let leaf = json!({"type": "in", "key": "year", "value": [2020, 2021]});
        let filters = json!({"type": "and", "filters": [leaf, {"type": "ne", "key": "draft", "value": true}]});
        let request = asked(json!({"query": "a", "filters": filters})).unwrap();
        let condition = request.searches[0].filter.clone().unwrap().condition.unwrap();
        let values = vec![typed(&json!(2020)).unwrap(), typed(&json!(2021)).unwrap()];
        let expected = [
            compared("year", Operator::In, values),
            compared("draft", Operator::Ne, vec![typed(&json!(true)).unwrap()]),
        ];
        assert_eq!(condition, joined(expected.to_vec(), false));
        let mut deep = json!({"type": "eq", "key": "a", "value": 1});
        for _ in 0..100 {
            deep = json!({"type": "and", "filters": [deep]});
        }
        assert!(asked(json!({"query": "a", "filters": deep})).is_err());
    }

    #[test]
    fn rankings_take_turns_and_a_passage_comes_once() {
        let ranking = |ids: &[&str]| {
            let passage = |id: &&str| Evidence { chunk_id: (*id).to_owned(), ..Default::default() };
            ids.iter().map(passage).collect::<Vec<_>>()
        };
        let all = interleaved(vec![ranking(&["a", "b"]), ranking(&["c", "a", "d"])]);
        let ids: Vec<&str> = all.iter().map(|passage| passage.chunk_id.as_str()).collect();
        assert_eq!(ids, ["a", "c", "b", "d"]);
    }
}
