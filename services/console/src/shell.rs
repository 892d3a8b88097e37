//! What surrounds the content of every page.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use clew_core::CorpusName;
use maud::{DOCTYPE, Markup, html};

use crate::console::Console;
use crate::failed::Failed;
use crate::visitor::Visitor;

/// Pages of a corpus, in the order of its menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Corpus,
    Documents,
    Search,
    Ask,
    Graph,
    Tree,
    Users,
    Failures,
    Runs,
}

impl Tab {
    const ALL: [Self; 9] = [
        Self::Corpus,
        Self::Documents,
        Self::Search,
        Self::Ask,
        Self::Graph,
        Self::Tree,
        Self::Users,
        Self::Failures,
        Self::Runs,
    ];

    /// Returns the last part of the page's path, and its name.
    fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Corpus => ("", "Corpus"),
            Self::Documents => ("documents", "Documents"),
            Self::Search => ("search", "Search"),
            Self::Ask => ("ask", "Ask"),
            Self::Graph => ("graph", "Graph"),
            Self::Tree => ("tree", "Tree"),
            Self::Users => ("users", "Users"),
            Self::Failures => ("failures", "What fails"),
            Self::Runs => ("runs", "Runs"),
        }
    }
}

/// Pages that are of no corpus, in the order of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Main {
    Overview,
    Cluster,
    Connect,
}

/// Where a page is in the menus.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where<'a> {
    Main(Main),
    /// A page of a corpus.
    Of(&'a CorpusName, Tab),
}

/// Returns a page with menus.
pub(crate) fn page(visitor: &Visitor, place: Where<'_>, title: &str, content: Markup) -> Response {
    let here = |main| match place {
        Where::Main(at) => (at == main).then_some("page"),
        Where::Of(..) => None,
    };
    let menu = html! {
        header class="top" {
            a class="brand" href=(visitor.at("/")) { "Clew" }
            nav aria-label="Console" {
                a href=(visitor.at("/")) aria-current=[here(Main::Overview)] { "Overview" }
                @if visitor.may_see_cluster() {
                    a href=(visitor.at("/cluster")) aria-current=[here(Main::Cluster)] { "Cluster" }
                }
                a href=(visitor.at("/connect")) aria-current=[here(Main::Connect)] { "Connect" }
            }
            @if visitor.has_key() {
                form class="who" method="post" action=(visitor.at("/logout")) {
                    span { bdi { (visitor.name()) } }
                    button { "Log out" }
                }
            }
        }
        @if let Where::Of(corpus, tab) = place {
            nav class="tabs" aria-label="Corpus" {
                span class="corpus" { bdi { (corpus) } }
                @for one in Tab::ALL {
                    @let (path, name) = one.entry();
                    a href=(visitor.of(corpus, path, &[]))
                        aria-current=[(one == tab).then_some("page")] { (name) }
                }
            }
        }
    };
    let title = match place {
        Where::Main(_) => title.to_owned(),
        Where::Of(corpus, _) => format!("{title} – {corpus}"),
    };
    let whole = document(|path| visitor.at(path), &title, &menu, &content);
    respond(StatusCode::OK, whole)
}

/// Returns a page for visitors who are not known.
pub(crate) fn bare(
    console: &Console,
    status: StatusCode,
    title: &str,
    content: Markup,
) -> Response {
    let menu = html! {
        header class="top" { a class="brand" href=(console.at("/")) { "Clew" } }
    };
    respond(status, document(|path| console.at(path), title, &menu, &content))
}

/// Returns the page of a request that failed.
pub(crate) fn failed(console: &Console, failed: &Failed) -> Response {
    let status = failed.status();
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "Try again later",
        status if status.is_client_error() => "This cannot be done",
        _ => "This failed",
    };
    let content = html! {
        h1 { (title) }
        p class="problem" role="alert" { (failed.message()) }
        p class="quiet" { "Reason " code { (failed.reason()) } ", status " (status.as_u16()) "." }
        p { a href=(console.at("/")) { "To the overview" } }
    };
    bare(console, status, title, content)
}

fn document(at: impl Fn(&str) -> String, title: &str, menu: &Markup, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Clew" }
                link rel="icon" href=(at("/assets/icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(at("/assets/style.css"));
                script type="module" src=(at("/assets/script.js")) {}
            }
            body {
                a class="skip" href="#content" { "To the content" }
                (menu)
                main id="content" { (content) }
            }
        }
    }
}

fn respond(status: StatusCode, page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(CONTENT_TYPE, kind)], page.into_string()).into_response()
}
