//! `/v1/vector_stores`: corpora, their search and their documents.

mod files;
mod search;

pub(crate) use files::{attach, describe as describe_file, detach, list as list_files};
pub(crate) use search::search;

use axum::extract::{Path, RawQuery};
use clew_core::CorpusName;
use clew_http::Failure;
use clew_proto::convert::Page;
use clew_proto::corpus::v1::{
    Corpus, CorpusCounts, CreateCorpusRequest, DeleteCorpusRequest, GetCorpusRequest,
    ListCorporaRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Json;
use crate::caller::{Call, Caller};
use crate::listing::Listing;
use crate::refusal::Refusal;

/// Body of a request for a new corpus. What else a client sends is ignored.
#[derive(Deserialize)]
struct New {
    name: Option<String>,
    #[serde(default)]
    file_ids: Vec<String>,
    expires_after: Option<Value>,
}

/// Lists corpora, by name.
pub(crate) async fn list(
    caller: Result<Caller, Failure>,
    RawQuery(query): RawQuery,
) -> Result<Json, Refusal> {
    let (caller, listing) = (caller?, Listing::of(query.as_deref())?);
    let request = ListCorporaRequest {
        page_size: listing.limit,
        page_token: listing.after.as_deref().map(Page::token_after).unwrap_or_default(),
    };
    let listed = caller.corpora().list_corpora(caller.request(request)).await;
    let listed = listed.map_err(|status| Refusal::from(Failure::from(status)))?.into_inner();
    let stores = listed.corpora.iter().map(store).collect();
    Ok(Json(listing.page(stores, !listed.next_page_token.is_empty())))
}

/// Creates a corpus.
pub(crate) async fn create(call: Result<Call, Failure>) -> Result<Json, Refusal> {
    let call = call?;
    let New { name, file_ids, expires_after } = call.body()?;
    let name = name.unwrap_or_else(|| format!("vs-{}", Uuid::new_v4().simple()));
    if let Err(error) = name.parse::<CorpusName>() {
        return Err(Refusal::param("name", error.message().to_owned()));
    }
    if !file_ids.is_empty() {
        let problem = "expected none; attach files to the new vector store one by one";
        return Err(Refusal::param("file_ids", problem));
    }
    if expires_after.is_some_and(|after| !after.is_null()) {
        let problem = "expected none: a corpus does not expire when it is not used; create it with \
                       `clew corpus create --retain-days` to forget old documents";
        return Err(Refusal::param("expires_after", problem));
    }
    let request = CreateCorpusRequest { name, ..Default::default() };
    let created = call.caller.corpora().create_corpus(call.caller.request(request)).await;
    let created = created.map_err(|status| Refusal::from(Failure::from(status)))?.into_inner();
    Ok(Json(store(&created.corpus.unwrap_or_default())))
}

/// Describes a corpus.
pub(crate) async fn describe(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Json, Refusal> {
    let caller = caller?;
    let got = caller.corpora().get_corpus(caller.request(GetCorpusRequest { name: id })).await;
    let got = got.map_err(Refusal::of_store)?.into_inner();
    Ok(Json(store(&got.corpus.unwrap_or_default())))
}

/// Deletes a corpus.
pub(crate) async fn delete(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Json, Refusal> {
    let caller = caller?;
    let request = caller.request(DeleteCorpusRequest { name: id.clone() });
    caller.corpora().delete_corpus(request).await.map_err(Refusal::of_store)?;
    Ok(Json(json!({"id": id, "object": "vector_store.deleted", "deleted": true})))
}

fn store(corpus: &Corpus) -> Value {
    let counts = corpus.counts.unwrap_or_default();
    let CorpusCounts { documents, indexed_documents, pending_documents, .. } = counts;
    let created = corpus.created_at.as_ref().map_or(0, |at| at.seconds);
    json!({
        "id": corpus.name,
        "object": "vector_store",
        "name": corpus.name,
        "created_at": created,
        "last_active_at": null,
        "usage_bytes": counts.text_bytes,
        "file_counts": {
            "in_progress": pending_documents,
            "completed": indexed_documents,
            "failed": counts.failed_documents,
            "cancelled": 0,
            "total": documents,
        },
        "status": if pending_documents == 0 { "completed" } else { "in_progress" },
        "metadata": {},
    })
}
