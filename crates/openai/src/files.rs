//! `/v1/files`: uploads, which are documents of the corpus `files` until they are attached to
//! others.

mod form;

use axum::extract::{Path, RawQuery};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use clew_http::Failure;
use clew_proto::convert::Page;
use clew_proto::convert::ingest::next_text_part;
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::ingest::v1::{
    Document, DocumentStage, DocumentState, ForgetDocumentsRequest, GetDocumentRequest,
    IngestRequest, ListDocumentsRequest,
};
use futures::stream;
use serde_json::{Value, json};
use tonic::{Code, Status};
use uuid::Uuid;

use self::form::{Form, Part};
use crate::Json;
use crate::caller::{Call, Caller};
use crate::listing::Listing;
use crate::refusal::Refusal;

/// Name of the corpus that holds uploads.
pub(crate) const UPLOADS: &str = "files";
/// Number of attempts to read a text in parts if the document is replaced meanwhile.
const READ_ATTEMPTS: usize = 3;

/// Stores an uploaded file.
pub(crate) async fn upload(call: Result<Call, Failure>) -> Result<Json, Refusal> {
    let call = call?;
    let content_type = call.caller.header(CONTENT_TYPE.as_str())?.unwrap_or_default();
    let form = Form::of(content_type, call.bytes())?;
    let file = form.part("file").ok_or_else(|| Refusal::param("file", "expected a file"))?;
    let document = document(file)?;
    let (id, title, bytes) = (document.id.clone(), document.title.clone(), document.text.len());
    store(&call.caller, UPLOADS, document).await?;
    let state = DocumentState {
        id,
        text_bytes: bytes as u64,
        accepted_at: Some(crate::now()),
        ..Default::default()
    };
    Ok(Json(file_object(&state, &title)))
}

/// Returns an upload as a document. Its id is new, so that files of one name are several.
fn document(file: &Part) -> Result<Document, Refusal> {
    let Part { filename, bytes, .. } = file;
    let ends = |ending: &str| filename.to_ascii_lowercase().ends_with(ending);
    let media_type = match ends(".md") || ends(".markdown") {
        true => "text/markdown",
        false => "text/plain",
    };
    if std::str::from_utf8(bytes).is_err() {
        let problem = format!(
            "expected a text in UTF-8 or Markdown, got something else in `{filename}`; `clew ingest` reads \
             other formats"
        );
        return Err(Refusal::param("file", problem));
    }
    Ok(Document {
        id: format!("file-{}", Uuid::new_v4().simple()),
        text: bytes.clone(),
        media_type: media_type.to_owned(),
        title: filename.clone(),
        ..Default::default()
    })
}

/// Lists uploads, by id.
pub(crate) async fn list(
    caller: Result<Caller, Failure>,
    RawQuery(query): RawQuery,
) -> Result<Json, Refusal> {
    let (caller, listing) = (caller?, Listing::of(query.as_deref())?);
    let request = ListDocumentsRequest {
        corpus: UPLOADS.to_owned(),
        page_size: listing.limit,
        page_token: listing.after.as_deref().map(Page::token_after).unwrap_or_default(),
        with_attributes: true,
        ..Default::default()
    };
    let listed = match caller.documents().list_documents(caller.request(request)).await {
        Ok(listed) => listed.into_inner(),
        // Nothing was uploaded yet.
        Err(status) if status.code() == Code::NotFound => Default::default(),
        Err(status) => return Err(Failure::from(status).into()),
    };
    let files = listed.documents.iter().map(|state| file_object(state, &state.title)).collect();
    Ok(Json(listing.page(files, !listed.next_page_token.is_empty())))
}

/// Describes an upload.
pub(crate) async fn describe(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Json, Refusal> {
    let caller = caller?;
    let request =
        GetDocumentRequest { corpus: UPLOADS.to_owned(), document_id: id, ..Default::default() };
    let got = caller.documents().get_document(caller.request(request)).await;
    let got = got.map_err(Refusal::of_file)?.into_inner();
    let title = got.document.unwrap_or_default().title;
    Ok(Json(file_object(&got.state.unwrap_or_default(), &title)))
}

/// Returns the bytes of an upload.
pub(crate) async fn content(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let document = read(&caller?, UPLOADS, &id).await?;
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(([(CONTENT_TYPE, media_type)], document.text).into_response())
}

/// Forgets an upload. Corpora that it was attached to keep it.
pub(crate) async fn delete(
    caller: Result<Caller, Failure>,
    Path(id): Path<String>,
) -> Result<Json, Refusal> {
    let caller = caller?;
    let request = ForgetDocumentsRequest {
        corpus: UPLOADS.to_owned(),
        document_ids: vec![id.clone()],
        ..Default::default()
    };
    let forgotten = caller.documents().forget_documents(caller.request(request)).await;
    let forgotten = forgotten.map_err(Refusal::of_file)?.into_inner();
    let deleted = forgotten.documents.iter().any(|document| document.found);
    Ok(Json(json!({"id": id, "object": "file", "deleted": deleted})))
}

/// Reads a whole document of one version.
///
/// # Errors
/// Returns a refusal if there is no such document.
pub(crate) async fn read(caller: &Caller, corpus: &str, id: &str) -> Result<Document, Refusal> {
    'whole: for _ in 0..READ_ATTEMPTS {
        let mut text = BytesMut::new();
        let mut version = None;
        loop {
            let request = GetDocumentRequest {
                corpus: corpus.to_owned(),
                document_id: id.to_owned(),
                text_offset: text.len() as u64,
            };
            let got = caller.documents().get_document(caller.request(request)).await;
            let got = got.map_err(Refusal::of_file)?.into_inner();
            let (document, state) =
                (got.document.unwrap_or_default(), got.state.unwrap_or_default());
            if *version.get_or_insert(state.version) != state.version {
                continue 'whole;
            }
            text.extend_from_slice(&document.text);
            if text.len() as u64 >= state.text_bytes || document.text.is_empty() {
                return Ok(Document { text: text.freeze(), ..document });
            }
        }
    }
    let problem = "the file was replaced whenever it was read; try again";
    Err(Refusal::conflict("file_id", "DOCUMENT_REPLACED", problem))
}

/// Stores a document, in as many messages as its text needs.
///
/// # Errors
/// Returns a refusal if the document is refused, and the errors of `Ingest`.
pub(crate) async fn store(
    caller: &Caller,
    corpus: &str,
    document: Document,
) -> Result<(), Refusal> {
    let messages = messages(corpus, document);
    let responses = caller.documents().ingest(caller.request(stream::iter(messages))).await;
    let refused = |status: Status| refused_in(corpus, status);
    let mut responses = responses.map_err(refused)?.into_inner();
    match responses.message().await.map_err(refused)?.and_then(|response| response.result) {
        Some(Outcome::Accepted(_)) => Ok(()),
        Some(Outcome::Refused(refusal)) => {
            let (http, code) = match refusal.retryable {
                true => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
                false => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
            };
            let mut failure = Failure::new(http, code, "DOCUMENT_REFUSED", refusal.message);
            failure.reason = refusal.reason;
            Err(failure.into())
        }
        None => {
            Err(Failure::from(Status::unavailable("the upload broke off; send it again")).into())
        }
    }
}

/// Returns the refusal of a call about a corpus that documents are stored in.
fn refused_in(corpus: &str, status: Status) -> Refusal {
    if corpus == UPLOADS && status.code() == Code::NotFound {
        let problem = format!(
            "expected a corpus `{UPLOADS}`, which holds uploads; make it with `clew corpus create {UPLOADS} \
             --no-structure`"
        );
        return Refusal::conflict("file", "NO_CORPUS_OF_UPLOADS", problem);
    }
    Refusal::of_store(status)
}

/// Returns the messages of a stream with one document.
fn messages(corpus: &str, mut document: Document) -> Vec<IngestRequest> {
    let text_bytes = document.text.len() as u64;
    let mut rest = std::mem::take(&mut document.text);
    document.text = next_text_part(&mut rest);
    let mut messages = vec![IngestRequest {
        corpus: corpus.to_owned(),
        continues: !rest.is_empty(),
        text_bytes: if rest.is_empty() { 0 } else { text_bytes },
        payload: Some(Payload::Document(document)),
    }];
    while !rest.is_empty() {
        let part = next_text_part(&mut rest);
        messages.push(IngestRequest {
            continues: !rest.is_empty(),
            payload: Some(Payload::TextPart(part)),
            ..Default::default()
        });
    }
    messages
}

fn file_object(state: &DocumentState, filename: &str) -> Value {
    let status = match state.stage() {
        DocumentStage::Failed => "error",
        DocumentStage::Indexed => "processed",
        DocumentStage::Pending | DocumentStage::Unspecified => "uploaded",
    };
    json!({
        "id": state.id,
        "object": "file",
        "bytes": state.text_bytes,
        "created_at": state.accepted_at.as_ref().map_or(0, |at| at.seconds),
        "filename": filename,
        "purpose": "assistants",
        "status": status,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_long_document_is_sent_in_parts_that_add_up() {
        let text = Bytes::from("x".repeat(3 << 20));
        let document =
            Document { id: "file-1".to_owned(), text: text.clone(), ..Default::default() };
        let messages = messages("files", document);
        assert!(messages.len() > 2 && messages[0].text_bytes == text.len() as u64);
        let mut sent = BytesMut::new();
        for (place, message) in messages.iter().enumerate() {
            assert_eq!(message.continues, place + 1 < messages.len());
            match message.payload.as_ref().unwrap() {
                Payload::Document(document) => sent.extend_from_slice(&document.text),
                Payload::TextPart(part) => sent.extend_from_slice(part),
                Payload::Addition(_) => panic!("an upload replaces nothing anyway"),
            }
        }
        assert_eq!(sent.freeze(), text);
    }

    #[test]
    fn an_upload_is_a_text_with_its_name_as_title() {
        let part = |filename: &str, bytes: &'static [u8]| Part {
            name: "file".to_owned(),
            filename: filename.to_owned(),
            bytes: Bytes::from_static(bytes),
        };
        let note = document(&part("Note.MD", b"# Hi")).unwrap();
        assert_eq!((note.media_type.as_str(), note.title.as_str()), ("text/markdown", "Note.MD"));
        assert!(note.id.starts_with("file-"), "{}", note.id);
        let refused = document(&part("a.pdf", b"%PDF\xff\xfe")).unwrap_err();
        assert_eq!(refused.body()["error"]["param"], "file");
    }
}
