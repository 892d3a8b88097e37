//! `/v1/vector_stores/{id}/files`: documents of a corpus.

use axum::extract::{Path, RawQuery};
use clew_http::Failure;
use clew_proto::convert::Page;
use clew_proto::ingest::v1::{
    Attribute, Document, DocumentStage, DocumentState, ForgetDocumentsRequest, GetDocumentRequest,
    ListDocumentsRequest,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Json;
use crate::attributes::{object, typed};
use crate::caller::{Call, Caller};
use crate::files::{UPLOADS, read, store};
use crate::listing::Listing;
use crate::refusal::Refusal;

/// Body of a request that attaches a file. What else a client sends is ignored.
#[derive(Deserialize)]
struct Attached {
    file_id: String,
    attributes: Option<Map<String, Value>>,
}

/// Lists the documents of a corpus, by id.
pub(crate) async fn list(
    caller: Result<Caller, Failure>,
    Path(corpus): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json, Refusal> {
    let (caller, listing) = (caller?, Listing::of(query.as_deref())?);
    let request = ListDocumentsRequest {
        corpus: corpus.clone(),
        page_size: listing.limit,
        page_token: listing.after.as_deref().map(Page::token_after).unwrap_or_default(),
        with_attributes: true,
        ..Default::default()
    };
    let listed = caller.documents().list_documents(caller.request(request)).await;
    let listed = listed.map_err(Refusal::of_store)?.into_inner();
    let file = |state: &DocumentState| file(&corpus, state, &state.attributes);
    let files = listed.documents.iter().map(file).collect();
    Ok(Json(listing.page(files, !listed.next_page_token.is_empty())))
}

/// Describes a document of a corpus: whether it can be found yet.
pub(crate) async fn describe(
    caller: Result<Caller, Failure>,
    Path((corpus, id)): Path<(String, String)>,
) -> Result<Json, Refusal> {
    Ok(Json(described(&caller?, &corpus, id).await?))
}

async fn described(caller: &Caller, corpus: &str, id: String) -> Result<Value, Refusal> {
    let request =
        GetDocumentRequest { corpus: corpus.to_owned(), document_id: id, ..Default::default() };
    let got = caller.documents().get_document(caller.request(request)).await;
    let got = got.map_err(Refusal::of_file)?.into_inner();
    let attributes = got.document.unwrap_or_default().attributes;
    Ok(file(corpus, &got.state.unwrap_or_default(), &attributes))
}

/// Adds an uploaded file to a corpus. Doing so again changes nothing, unless its attributes differ.
pub(crate) async fn attach(
    Path(corpus): Path<String>,
    call: Result<Call, Failure>,
) -> Result<Json, Refusal> {
    let call = call?;
    let Attached { file_id, attributes } = call.body()?;
    let uploaded = read(&call.caller, UPLOADS, &file_id).await?;
    let attributes = attributes.unwrap_or_default().into_iter().map(attribute);
    let attributes = attributes.collect::<Result<Vec<_>, _>>()?;
    store(&call.caller, &corpus, Document { attributes, ..uploaded }).await?;
    Ok(Json(described(&call.caller, &corpus, file_id).await?))
}

/// Forgets a document of a corpus. The upload remains.
pub(crate) async fn detach(
    caller: Result<Caller, Failure>,
    Path((corpus, id)): Path<(String, String)>,
) -> Result<Json, Refusal> {
    let caller = caller?;
    let request =
        ForgetDocumentsRequest { corpus, document_ids: vec![id.clone()], ..Default::default() };
    let forgotten = caller.documents().forget_documents(caller.request(request)).await;
    let forgotten = forgotten.map_err(Refusal::of_store)?.into_inner();
    let deleted = forgotten.documents.iter().any(|document| document.found);
    Ok(Json(json!({"id": id, "object": "vector_store.file.deleted", "deleted": deleted})))
}

fn attribute((name, value): (String, Value)) -> Result<Attribute, Refusal> {
    let expected = || {
        let problem = "expected a text, a number or a truth value";
        Refusal::param(format!("attributes.{name}"), problem)
    };
    let value = typed(&value).ok_or_else(expected)?;
    Ok(Attribute { name, typed: Some(value), ..Default::default() })
}

fn file(corpus: &str, state: &DocumentState, attributes: &[Attribute]) -> Value {
    let (status, error) = match state.stage() {
        DocumentStage::Indexed => ("completed", Value::Null),
        DocumentStage::Failed => {
            ("failed", json!({"code": "server_error", "message": state.last_error}))
        }
        DocumentStage::Pending | DocumentStage::Unspecified => ("in_progress", Value::Null),
    };
    json!({
        "id": state.id,
        "object": "vector_store.file",
        "vector_store_id": corpus,
        "created_at": state.accepted_at.as_ref().map_or(0, |at| at.seconds),
        "usage_bytes": state.text_bytes,
        "status": status,
        "last_error": error,
        "attributes": object(attributes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_file_with_a_status() {
        let state = |stage: DocumentStage| DocumentState {
            id: "file-1".to_owned(),
            stage: stage.into(),
            last_error: "no words".to_owned(),
            text_bytes: 7,
            ..Default::default()
        };
        for (stage, status) in [
            (DocumentStage::Pending, "in_progress"),
            (DocumentStage::Indexed, "completed"),
            (DocumentStage::Failed, "failed"),
        ] {
            let told = file("notes", &state(stage), &[]);
            assert_eq!((&told["status"], &told["usage_bytes"]), (&json!(status), &json!(7)));
            assert_eq!(told["last_error"].is_null(), stage != DocumentStage::Failed);
        }
    }

    #[test]
    fn attributes_keep_their_types() {
        let year = attribute(("year".to_owned(), json!(2020))).unwrap();
        assert_eq!(Value::from(object(&[year])), json!({"year": 2020}));
        let refused = attribute(("tags".to_owned(), json!(["a"]))).unwrap_err();
        assert_eq!(refused.body()["error"]["param"], "attributes.tags");
    }
}
