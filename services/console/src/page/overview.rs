//! All corpora, and what needs a person.

use axum::response::Response;
use clew_core::CorpusName;
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::corpus::v1::{Corpus, CorpusCounts, ListCorporaRequest, ListCorporaResponse};
use clew_proto::from_status;
use maud::{Markup, html};

use super::Shown;
use crate::failed::Failed;
use crate::fields::Posted;
use crate::paging::pages;
use crate::protected::see_other;
use crate::shell::{self, Main, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, counted, size};
use crate::visitor::Visitor;

/// Corpora of one page.
const PAGE_SIZE: u32 = 50;

pub(crate) async fn show(visitor: Visitor) -> Shown {
    let listed = match visitor.may_read() {
        true => list(&visitor).await?,
        false => ListCorporaResponse::default(),
    };
    Ok(whole(&visitor, &listed))
}

async fn list(visitor: &Visitor) -> Result<ListCorporaResponse, Failed> {
    let request = ListCorporaRequest {
        page_size: PAGE_SIZE,
        page_token: visitor.query.get("page").to_owned(),
    };
    let listed = CorpusServiceClient::new(visitor.client.services()).list_corpora(request).await;
    Ok(listed.map_err(|status| from_status(&status))?.into_inner())
}

/// Creates a corpus with the default settings.
pub(crate) async fn create(visitor: Visitor, Posted(fields): Posted) -> Shown {
    let name = fields.get("name").parse::<CorpusName>()?;
    let to = visitor.of(&name, "", &[]);
    let new = NewCorpus::try_from(clew_proto::corpus::v1::CreateCorpusRequest {
        name: name.to_string(),
        ..Default::default()
    })?;
    visitor.client.create_corpus(new).await?;
    Ok(see_other(&to))
}

fn whole(visitor: &Visitor, listed: &ListCorporaResponse) -> Response {
    let ListCorporaResponse { corpora, next_page_token } = listed;
    let is_part = visitor.query.has("page") || !next_page_token.is_empty();
    let needs: Vec<Markup> = corpora.iter().flat_map(|corpus| needs(visitor, corpus)).collect();
    let columns = [
        Words("Corpus"),
        Words("State"),
        Number("Documents"),
        Number("Waiting"),
        Number("Set aside"),
        Number("Chunks"),
        Number("Text"),
    ];
    let rows = html! {
        @for corpus in corpora { (row(visitor, corpus)) }
    };
    let content = html! {
        h1 { "Overview" }
        @if !needs.is_empty() {
            section class="needs" aria-labelledby="needs" {
                h2 id="needs" { "Needs a person" @if is_part { ", of the corpora of this page" } }
                ul { @for need in &needs { li { (need) } } }
            }
        }
        h2 { "Corpora" }
        @if !visitor.may_read() {
            p { "This key does not open what is stored: it lacks the scope " code { "read" } "." }
        } @else if corpora.is_empty() {
            p { "There is no corpus yet." }
        } @else {
            (table("Corpora", &columns, &rows))
        }
        (pages(visitor, next_page_token, |page| visitor.asking("/", &[("page", page)])))
        @if visitor.may_administer() {
            h2 { "New corpus" }
            form class="fields line" method="post" action=(visitor.at("/")) {
                label for="name" { "Name" }
                input id="name" name="name" required autocomplete="off";
                button { "Create" }
            }
            p class="quiet" {
                "It gets the default settings. " code { "clew corpus create" } " has all of them."
            }
        }
    };
    shell::page(visitor, Where::Main(Main::Overview), "Overview", content)
}

fn row(visitor: &Visitor, corpus: &Corpus) -> Markup {
    let counts = corpus.counts.unwrap_or_default();
    html! {
        tr {
            th scope="row" {
                @match corpus.name.parse::<CorpusName>() {
                    Ok(name) => a href=(visitor.of(&name, "", &[])) { bdi { (corpus.name) } },
                    Err(_) => bdi { (corpus.name) },
                }
            }
            td { (state(corpus)) }
            td class="number" { (count(counts.documents)) }
            td class="number" { (count(counts.pending_documents)) }
            td class="number" { (count(counts.failed_documents)) }
            td class="number" { (count(counts.chunks)) }
            td class="number" { (size(counts.text_bytes)) }
        }
    }
}

/// Returns the state of a corpus in words.
pub(crate) fn state(corpus: &Corpus) -> Markup {
    let CorpusCounts { pending_documents, failed_documents, unstructured_documents, .. } =
        corpus.counts.unwrap_or_default();
    html! {
        @if corpus.fault.is_some() {
            span class="state bad" { "cannot be used" }
        } @else if !corpus.shards_missing.is_empty() {
            span class="state bad" { "incomplete" }
        } @else if failed_documents > 0 {
            span class="state bad" { "documents set aside" }
        } @else if pending_documents > 0 {
            span class="state busy" { "indexing" }
        } @else if unstructured_documents > 0 && corpus.structure.is_some() {
            span class="state busy" { "structuring" }
        } @else {
            span class="state good" { "up to date" }
        }
    }
}

/// Returns what a person should look at, each with the page that tells more.
fn needs(visitor: &Visitor, corpus: &Corpus) -> Vec<Markup> {
    let Ok(name) = corpus.name.parse::<CorpusName>() else { return Vec::new() };
    let link = |page, text: String| html! { a href=(visitor.of(&name, page, &[])) { (text) } };
    let mut needs = Vec::new();
    if let Some(fault) = &corpus.fault {
        let told = html! { (link("", corpus.name.clone())) " cannot be used: " (fault.message) };
        needs.push(told);
    }
    if !corpus.shards_missing.is_empty() {
        let missing = counted(corpus.shards_missing.len() as u64, "shard");
        let told = html! { (link("", corpus.name.clone())) ": " (missing) " did not answer" };
        needs.push(told);
    }
    let failed = corpus.counts.unwrap_or_default().failed_documents;
    if failed > 0 {
        let told = format!("{} set aside", counted(failed, "document"));
        needs.push(html! { bdi { (corpus.name) } ": " (link("failures", told)) });
    }
    needs
}
