//! `GET /v1/models`: the corpora that the caller may read, and the strategies that answer from
//! them.

use axum::extract::Path;
use clew_core::Error;
use clew_http::Failure;
use clew_proto::corpus::v1::{Corpus, GetCorpusRequest, ListCorporaRequest};
use clew_proto::query::v1::{ListStrategiesRequest, Strategy, StrategyNeeds};
use serde_json::{Value, json};

use crate::Json;
use crate::caller::Caller;
use crate::model::ModelId;
use crate::refusal::Refusal;

/// Maximum number of corpora that are listed. The shape has no pages.
const MOST: u32 = 1000;

/// Lists a model for each corpus that can be used, and then one for each strategy of each.
pub(crate) async fn list(caller: Result<Caller, Failure>) -> Result<Json, Refusal> {
    let caller = caller?;
    let request = ListCorporaRequest { page_size: MOST, page_token: String::new() };
    let listed = caller.corpora().list_corpora(caller.request(request)).await;
    let listed = listed.map_err(|status| Refusal::from(Failure::from(status)))?.into_inner();
    let usable: Vec<Corpus> =
        listed.corpora.into_iter().filter(|corpus| corpus.fault.is_none()).collect();
    let models = models(&usable, &strategies(&caller).await?);
    Ok(Json(json!({"object": "list", "data": models})))
}

/// Describes a model.
pub(crate) async fn describe(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Json, Refusal> {
    let (caller, named) = (caller?, ModelId::of(&id));
    let corpus = corpus_of(&caller, &named).await?;
    if !named.strategy.is_empty() {
        let known = strategies(&caller).await?;
        if !known.iter().any(|strategy| strategy.name == named.strategy) {
            let names: Vec<&str> = known.iter().map(|strategy| strategy.name.as_str()).collect();
            let problem = format!("expected one of {}, got `{}`", names.join(", "), named.strategy);
            return Err(Refusal::unknown_model(Failure::invalid("strategy", problem)));
        }
    }
    Ok(Json(model(&id, &corpus)))
}

/// Returns the corpus of a model.
///
/// # Errors
/// Returns a refusal if there is no such corpus, or the caller may not read it.
pub(crate) async fn corpus_of(caller: &Caller, model: &ModelId) -> Result<Corpus, Refusal> {
    let request = caller.request(GetCorpusRequest { name: model.corpus.clone() });
    let got = caller.corpora().get_corpus(request).await;
    let got = got.map_err(|status| Refusal::of_call(status, |_| Some("model".to_owned())))?;
    let missing = || Failure::from(Error::internal("a response has no corpus"));
    Ok(got.into_inner().corpus.ok_or_else(missing)?)
}

async fn strategies(caller: &Caller) -> Result<Vec<Strategy>, Refusal> {
    let request = caller.request(ListStrategiesRequest::default());
    let listed = caller.queries().list_strategies(request).await;
    Ok(listed.map_err(|status| Refusal::from(Failure::from(status)))?.into_inner().strategies)
}

/// Returns the models of corpora: first the corpora, which most clients show as they come, then
/// each with the strategies for which it has what they need.
fn models(corpora: &[Corpus], strategies: &[Strategy]) -> Vec<Value> {
    let plain = corpora.iter().map(|corpus| model(&corpus.name, corpus));
    let chosen = corpora.iter().flat_map(|corpus| {
        let fits = |strategy: &&Strategy| {
            strategy.needs() == StrategyNeeds::Chunks || corpus.structure.is_some()
        };
        let named = |strategy: &Strategy| ModelId {
            corpus: corpus.name.clone(),
            strategy: strategy.name.clone(),
        };
        let fitting = strategies.iter().filter(fits).map(named);
        fitting.map(|id| model(&id.to_string(), corpus)).collect::<Vec<_>>()
    });
    plain.chain(chosen).collect()
}

fn model(id: &str, corpus: &Corpus) -> Value {
    let created = corpus.created_at.as_ref().map_or(0, |at| at.seconds);
    json!({"id": id, "object": "model", "created": created, "owned_by": "clew"})
}

#[cfg(test)]
mod tests {
    use clew_proto::corpus::v1::Structure;

    use super::*;

    #[test]
    fn corpora_come_first_and_strategies_where_they_can_run() {
        let corpus = |name: &str, structure: Option<Structure>| Corpus {
            name: name.to_owned(),
            structure,
            ..Default::default()
        };
        let strategy = |name: &str, needs: StrategyNeeds| Strategy {
            name: name.to_owned(),
            needs: needs.into(),
            ..Default::default()
        };
        let corpora = [corpus("chats", None), corpus("notes", Some(Structure::default()))];
        let strategies =
            [strategy("direct", StrategyNeeds::Chunks), strategy("linked", StrategyNeeds::Graph)];
        let models = models(&corpora, &strategies);
        let ids: Vec<&str> = models.iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["chats", "notes", "chats:direct", "notes:direct", "notes:linked"]);
    }
}
