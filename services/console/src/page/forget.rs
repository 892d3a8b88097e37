//! Forgetting documents and turns: what would go, and then the receipt of what is gone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clew_client::receipt;
use clew_core::DocumentId;
use clew_proto::chat::v1::{ForgetTurnsRequest, ForgetTurnsResponse};
use clew_proto::ingest::v1::{
    ErasureScan, ForgetDocumentsRequest, ForgetDocumentsResponse, HoldingSnapshot,
};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::Shown;
use crate::fields::Posted;
use crate::shell::{self, Tab, Where};
use crate::text::{count, counted, size, time};
use crate::visitor::{OfCorpus, Visitor};

/// Shows what forgetting a document would remove, or forgets it and shows the receipt.
pub(crate) async fn documents(
    OfCorpus(corpus): OfCorpus,
    visitor: Visitor,
    Posted(fields): Posted,
) -> Shown {
    let id = fields.raw("id").parse::<DocumentId>()?;
    let preview = !fields.has("confirm");
    let request = ForgetDocumentsRequest {
        corpus: corpus.to_string(),
        document_ids: vec![id.to_string()],
        preview,
        ..Default::default()
    };
    let forgotten = visitor.client.forget_selected(request).await?;
    let content = if preview {
        html! {
            h1 { "Forget a document?" }
            p { "This forgets " code { bdi { (id) } } " with all its versions, chunks, tree nodes and memories. It cannot be undone." }
            form class="line" method="post" action=(visitor.of(&corpus, "forget", &[])) {
                input type="hidden" name="id" value=(id);
                input type="hidden" name="confirm" value="yes";
                button class="danger" { "Forget it" }
                a href=(visitor.of(&corpus, "document", &[("id", id.as_str())])) { "Keep it" }
            }
        }
    } else {
        html! {
            h1 { "Forgotten" }
            @for document in &forgotten.documents {
                @if document.found {
                    p {
                        code { bdi { (document.document_id) } } ": "
                        (counted(document.versions.into(), "version")) ", "
                        (counted(document.chunks.into(), "chunk")) ", "
                        (counted(document.nodes.into(), "tree node")) ", "
                        (size(document.text_bytes)) " of text."
                    }
                } @else {
                    p { code { bdi { (document.document_id) } } " was not there." }
                }
            }
            (erased(forgotten.verified, forgotten.scan.as_ref(), &forgotten.snapshots))
            (download(&documents_receipt(corpus.as_str(), &forgotten)))
            p { a href=(visitor.of(&corpus, "documents", &[])) { "To the documents" } }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Documents), "Forget", content))
}

/// Shows what forgetting turns of a user would remove, or forgets them and shows the receipt.
pub(crate) async fn turns(
    OfCorpus(corpus): OfCorpus,
    visitor: Visitor,
    Posted(fields): Posted,
) -> Shown {
    let (user, session) = (fields.raw("user"), fields.raw("session"));
    let number: Option<u32> = fields.number("number")?;
    let preview = !fields.has("confirm");
    let request = ForgetTurnsRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        session: session.to_owned(),
        numbers: number.into_iter().collect(),
        preview,
        ..Default::default()
    };
    let forgotten = visitor.client.forget_turns(request).await?;
    let back = visitor.of(&corpus, "user", &[("user", user), ("session", session)]);
    let number = fields.get("number");
    let content = if preview {
        html! {
            h1 { "Forget what " bdi { (user) } " said?" }
            p {
                "This forgets " (counted(forgotten.turns, "turn")) " of "
                (counted(forgotten.sessions, "session")) ", " (size(forgotten.text_bytes))
                " of text. It cannot be undone."
            }
            (first(&forgotten))
            form class="line" method="post" action=(visitor.of(&corpus, "user/forget", &[])) {
                input type="hidden" name="user" value=(user);
                input type="hidden" name="session" value=(session);
                input type="hidden" name="number" value=(number);
                input type="hidden" name="confirm" value="yes";
                button class="danger" { "Forget it" }
                a href=(back) { "Keep it" }
            }
        }
    } else {
        html! {
            h1 { "Forgotten" }
            p {
                (counted(forgotten.turns, "turn")) " of " (counted(forgotten.sessions, "session"))
                ", " (counted(forgotten.chunks, "chunk")) ", " (size(forgotten.text_bytes)) " of text."
            }
            (first(&forgotten))
            (erased(forgotten.verified, forgotten.scan.as_ref(), &forgotten.snapshots))
            (download(&turns_receipt(corpus.as_str(), user, &forgotten)))
            p { a href=(visitor.of(&corpus, "users", &[])) { "To the users" } }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Users), "Forget", content))
}

/// Returns the first of the turns.
fn first(forgotten: &ForgetTurnsResponse) -> Markup {
    html! {
        ul class="turns" {
            @for turn in &forgotten.first {
                li {
                    span class="quiet" { bdi { (turn.session) } " " (turn.number) ": " }
                    span dir="auto" { (turn.text) }
                }
            }
        }
        @if (forgotten.first.len() as u64) < forgotten.turns {
            p class="quiet" { "These are the first " (count(forgotten.first.len() as u64)) "." }
        }
    }
}

/// Returns what is known of the erasure: what the stored data was searched for, and what still
/// holds it.
fn erased(verified: bool, scan: Option<&ErasureScan>, snapshots: &[HoldingSnapshot]) -> Markup {
    html! {
        h2 { "Proof" }
        p {
            @if verified { span class="state good" { "verified" } " Nothing of it was found in the stored data." }
            @else { span class="state bad" { "not verified" } " Remains were found, or could not be searched for." }
        }
        @if let Some(scan) = scan {
            p {
                "Searched: " (counted(scan.tables, "table")) ", " (counted(scan.files, "file")) "; "
                (counted(scan.searched_files, "new file")) " (" (size(scan.searched_bytes)) ") byte by byte for "
                (counted(scan.texts, "part")) " of the text"
                @if scan.unsearched_files > 0 {
                    "; " (counted(scan.unsearched_files, "file")) " could not be searched so"
                }
                "."
            }
            @if !scan.leftovers.is_empty() {
                ul { @for leftover in &scan.leftovers { li { (leftover.place) ": " (leftover.problem) } } }
            }
        }
        @if !snapshots.is_empty() {
            p { "These snapshots still hold it. It leaves them only if they are deleted:" }
            ul {
                @for snapshot in snapshots {
                    li {
                        bdi { (snapshot.snapshot) } ", taken " (time(snapshot.taken_at.as_ref()))
                        @if !snapshot.problem.is_empty() { ", which cannot be read: " (snapshot.problem) }
                    }
                }
            }
        }
    }
}

/// Returns a link that saves a receipt, which is in the page and nowhere else.
fn download(receipt: &Value) -> Markup {
    let text = format!("{receipt:#}\n");
    let address = format!("data:application/json;base64,{}", STANDARD.encode(text));
    html! {
        p { a class="button" download="receipt.json" href=(address) { "Download the receipt" } }
    }
}

fn documents_receipt(corpus: &str, forgotten: &ForgetDocumentsResponse) -> Value {
    let documents: Vec<Value> = forgotten
        .documents
        .iter()
        .map(|document| {
            json!({
                "document_id": document.document_id,
                "found": document.found,
                "versions": document.versions,
                "chunks": document.chunks,
                "tree_nodes": document.nodes,
                "memories": document.memories,
                "text_bytes": document.text_bytes,
            })
        })
        .collect();
    json!({
        "corpus": corpus,
        "forgotten_at": forgotten.forgotten_at.as_ref().map(receipt::timestamp),
        "documents": documents,
        "verified": forgotten.verified,
        "scan": receipt::scan(forgotten.scan.as_ref()),
        "snapshots": receipt::snapshots(&forgotten.snapshots),
    })
}

fn turns_receipt(corpus: &str, user: &str, forgotten: &ForgetTurnsResponse) -> Value {
    // Without the texts: a receipt is kept for longer than what it is about.
    let turns: Vec<Value> = forgotten
        .first
        .iter()
        .map(|turn| json!({"session": turn.session, "number": turn.number}))
        .collect();
    json!({
        "corpus": corpus,
        "user": user,
        "turns": forgotten.turns,
        "sessions": forgotten.sessions,
        "chunks": forgotten.chunks,
        "text_bytes": forgotten.text_bytes,
        "first": turns,
        "verified": forgotten.verified,
        "scan": receipt::scan(forgotten.scan.as_ref()),
        "snapshots": receipt::snapshots(&forgotten.snapshots),
    })
}
