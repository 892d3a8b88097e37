//! The documents of a corpus, with their state; and a form that adds one.

use clew_core::{
    Attributes, CorpusName, Document, DocumentId, Error, ErrorKind, IfThere, Labels, MediaType,
};
use clew_proto::ingest::v1::{
    DocumentStage, DocumentState, ListDocumentsRequest, ListDocumentsResponse, ingest_response,
};
use maud::{Markup, html};

use super::Shown;
use crate::fields::Posted;
use crate::paging::pages;
use crate::protected::see_other;
use crate::shell::{self, Tab, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, size, time};
use crate::visitor::{OfCorpus, Visitor};

/// Documents of one page.
const PAGE_SIZE: u32 = 50;

/// Stages by which documents are filtered: the word in the address, and for people.
const STAGES: [(&str, &str, DocumentStage); 4] = [
    ("", "all", DocumentStage::Unspecified),
    ("waiting", "waiting", DocumentStage::Pending),
    ("searchable", "searchable", DocumentStage::Indexed),
    ("failed", "set aside", DocumentStage::Failed),
];

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let (state, prefix) = (visitor.query.get("state"), visitor.query.get("prefix"));
    let stage = STAGES.iter().find(|(word, ..)| *word == state);
    let stage = stage.map(|(_, _, stage)| *stage).ok_or_else(|| {
        let words: Vec<&str> = STAGES.iter().map(|(word, ..)| *word).skip(1).collect();
        let problem = format!("expected one of {}, or nothing, got `{state}`", words.join(", "));
        Error::invalid("state", problem)
    })?;
    let request = ListDocumentsRequest {
        corpus: corpus.to_string(),
        stage: stage.into(),
        page_size: PAGE_SIZE,
        page_token: visitor.query.get("page").to_owned(),
        id_prefix: prefix.to_owned(),
        with_attributes: true,
        ..Default::default()
    };
    let listed = visitor.client.documents_page(request).await?;
    let content = html! {
        h1 { "Documents" }
        form class="fields line" method="get" action=(visitor.of(&corpus, "documents", &[])) {
            label for="state" { "State" }
            select id="state" name="state" {
                @for (word, name, _) in STAGES {
                    option value=(word) selected[word == state] { (name) }
                }
            }
            label for="prefix" { "Id begins with" }
            input id="prefix" name="prefix" value=(prefix) autocomplete="off";
            button { "Show" }
        }
        (found(&visitor, &corpus, &listed, state, prefix))
        @if visitor.may_write() { (form(&visitor, &corpus)) }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Documents), "Documents", content))
}

/// Adds the document of the form, or replaces it.
pub(crate) async fn upload(
    OfCorpus(corpus): OfCorpus,
    visitor: Visitor,
    Posted(fields): Posted,
) -> Shown {
    let id = fields.get("id").parse::<DocumentId>()?;
    let labels = fields.get("labels").split(',').map(str::trim).filter(|label| !label.is_empty());
    let to = visitor.of(&corpus, "document", &[("id", id.as_str())]);
    let document = Document {
        id,
        // Browsers send the lines of a form with a return at their ends, whatever was pasted.
        text: fields.raw("text").replace("\r\n", "\n"),
        media_type: MediaType::Plain,
        title: fields.get("title").to_owned(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::parse(labels)?,
        source_version: None,
    };
    let if_there = if fields.has("replace") { IfThere::Replace } else { IfThere::Refuse };
    let client = &visitor.client;
    let results = client.ingest_documents(&corpus, vec![document], if_there).await?;
    for result in results {
        if let Some(ingest_response::Result::Refused(refused)) = result.result {
            return Err(Error::new(ErrorKind::InvalidInput, refused.reason, refused.message).into());
        }
    }
    Ok(see_other(&to))
}

fn found(
    visitor: &Visitor,
    corpus: &CorpusName,
    listed: &ListDocumentsResponse,
    state: &str,
    prefix: &str,
) -> Markup {
    let columns = [
        Words("Document"),
        Words("State"),
        Number("Text"),
        Number("Chunks"),
        Words("Labels"),
        Words("Accepted"),
    ];
    let rows = html! {
        @for document in &listed.documents { (row(visitor, corpus, document)) }
    };
    html! {
        @if listed.documents.is_empty() {
            p { "No documents." }
        } @else {
            (table("Documents", &columns, &rows))
        }
        (pages(visitor, &listed.next_page_token, |page| {
            visitor.of(corpus, "documents", &[("state", state), ("prefix", prefix), ("page", page)])
        }))
    }
}

fn row(visitor: &Visitor, corpus: &CorpusName, document: &DocumentState) -> Markup {
    html! {
        tr {
            th scope="row" {
                a href=(visitor.of(corpus, "document", &[("id", &document.id)])) {
                    bdi { (document.id) }
                }
                @if !document.title.is_empty() { br; bdi class="quiet" { (document.title) } }
            }
            td { (stage(document)) }
            td class="number" { (size(document.text_bytes)) }
            td class="number" { (count(document.chunks.into())) }
            td { (labels(&document.labels)) }
            td { (time(document.accepted_at.as_ref())) }
        }
    }
}

/// Returns the state of a document in words.
pub(crate) fn stage(document: &DocumentState) -> Markup {
    html! {
        @match document.stage() {
            DocumentStage::Unspecified => span class="state" { "unknown" },
            DocumentStage::Pending => {
                span class="state busy" { "waiting" }
                @if !document.waits_for.is_empty() { " for " (document.waits_for) }
            }
            DocumentStage::Indexed => span class="state good" { "searchable" },
            DocumentStage::Failed => span class="state bad" { "set aside" },
        }
        @if document.attempts > 0 && document.stage() != DocumentStage::Indexed {
            " after " (document.attempts) @if document.attempts == 1 { " attempt" } @else { " attempts" }
        }
    }
}

/// Returns the labels of a document.
pub(crate) fn labels(labels: &[String]) -> Markup {
    html! {
        @if labels.is_empty() { "–" }
        @for label in labels { code { bdi { (label) } } " " }
    }
}

fn form(visitor: &Visitor, corpus: &CorpusName) -> Markup {
    html! {
        h2 { "Add a document" }
        form class="fields" method="post" action=(visitor.of(corpus, "documents", &[])) {
            label for="id" { "Id" }
            input id="id" name="id" required autocomplete="off" placeholder="notes/today.md";
            label for="title" { "Title" }
            input id="title" name="title" autocomplete="off";
            label for="labels" { "Access labels, with commas between them" }
            input id="labels" name="labels" autocomplete="off";
            label for="text" { "Text" }
            textarea id="text" name="text" rows="8" required dir="auto" {}
            // The script reads the file into the form, and shows the field that asks for it.
            div class="file" hidden data-fill="text" data-name="id" {
                label for="file" { "Or a file with text" }
                input id="file" type="file" accept="text/*,.md,.txt,.csv,.json";
            }
            label class="check" {
                input type="checkbox" name="replace" value="yes";
                " Replace the document if the id is there already"
            }
            button { "Add" }
        }
        p class="quiet" { "PDF, HTML and other formats: " code { "clew ingest" } "." }
    }
}
