//! Search: what is found and why, with the parts of each score, and two ways side by side.

use std::collections::BTreeMap;

use clew_client::name_of;
use clew_core::{CorpusName, Error};
use clew_proto::from_status;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use clew_proto::query::v1::{Evidence, Place, SearchMode, SearchRequest, SearchResponse};
use maud::{Markup, html};

use super::Shown;
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::structure;
use crate::text::{Exact, counted, took};
use crate::visitor::{OfCorpus, Visitor};

/// Passages that are found unless the form says otherwise.
const K: u32 = 10;
/// Most passages on a page.
const MAX_K: u32 = 50;

/// Ways of searching: the word in the address, the name for people, and what is asked for.
const WAYS: [(&str, &str, SearchMode, bool); 5] = [
    ("hybrid", "hybrid", SearchMode::Hybrid, false),
    ("dense", "dense", SearchMode::Dense, false),
    ("sparse", "sparse", SearchMode::Sparse, false),
    ("hybrid-exact", "hybrid, every vector", SearchMode::Hybrid, true),
    ("dense-exact", "dense, every vector", SearchMode::Dense, true),
];

/// A way of searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    word: &'static str,
    name: &'static str,
    mode: SearchMode,
    is_exact: bool,
}

impl Way {
    fn all() -> impl Iterator<Item = Self> {
        WAYS.iter().map(|&(word, name, mode, is_exact)| Self { word, name, mode, is_exact })
    }

    /// Returns the way that a field names.
    fn of(field: &str, word: &str) -> Result<Self, Error> {
        Self::all().find(|way| way.word == word).ok_or_else(|| {
            let words: Vec<&str> = Self::all().map(|way| way.word).collect();
            Error::invalid(field, format!("expected one of {}, got `{word}`", words.join(", ")))
        })
    }
}

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let query = visitor.query.get("q");
    let k = visitor.query.number("k")?.unwrap_or(K).clamp(1, MAX_K);
    let word = match visitor.query.get("mode") {
        "" => "hybrid",
        word => word,
    };
    let way = Way::of("mode", word)?;
    let other = match visitor.query.get("beside") {
        "" => None,
        word => Some(Way::of("beside", word)?),
    };
    let mut found = Vec::new();
    if !query.is_empty() {
        for way in [Some(way), other].into_iter().flatten() {
            found.push((way, search(&visitor, &corpus, query, way, k).await?));
        }
    }
    let content = html! {
        h1 { "Search" }
        form class="fields line" method="get" action=(visitor.of(&corpus, "search", &[])) {
            label for="q" { "Query" }
            input id="q" class="long" name="q" type="search" required value=(query) dir="auto";
            label for="mode" { "Mode" }
            select id="mode" name="mode" {
                @for one in Way::all() { option value=(one.word) selected[one == way] { (one.name) } }
            }
            label for="beside" { "Beside it" }
            select id="beside" name="beside" {
                option value="" { "nothing" }
                @for one in Way::all() {
                    option value=(one.word) selected[Some(one) == other] { (one.name) }
                }
            }
            label for="k" { "Passages" }
            input id="k" name="k" type="number" min="1" max=(MAX_K) value=(k);
            button { "Search" }
        }
        @if let [(_, one), (_, another)] = found.as_slice() { (agreement(one, another)) }
        div class="beside" {
            @for (place, (way, response)) in found.iter().enumerate() {
                @let ranks = found.get(1 - place.min(1)).filter(|_| found.len() > 1);
                (results(&visitor, &corpus, *way, response, ranks.map(|(_, other)| other)))
            }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Search), "Search", content))
}

async fn search(
    visitor: &Visitor,
    corpus: &CorpusName,
    query: &str,
    way: Way,
    k: u32,
) -> Result<SearchResponse, Failed> {
    let request = SearchRequest {
        corpus: corpus.to_string(),
        query: query.to_owned(),
        k: Some(k),
        mode: way.mode.into(),
        exact: way.is_exact,
        ..Default::default()
    };
    let found = QueryServiceClient::new(visitor.client.services()).search(request).await;
    Ok(found.map_err(|status| from_status(&status))?.into_inner())
}

/// Returns how many passages both ways found.
fn agreement(one: &SearchResponse, other: &SearchResponse) -> Markup {
    let ranks = ranks(other);
    let both = one.evidence.iter().filter(|hit| ranks.contains_key(hit.chunk_id.as_str())).count();
    let most = one.evidence.len().max(other.evidence.len());
    html! { p class="quiet" { "Both found " (both) " of " (counted(most as u64, "passage")) "." } }
}

/// Returns the rank of each chunk in a response, from 1.
fn ranks(response: &SearchResponse) -> BTreeMap<&str, usize> {
    let ids = response.evidence.iter().map(|hit| hit.chunk_id.as_str());
    ids.zip(1..).collect()
}

fn results(
    visitor: &Visitor,
    corpus: &CorpusName,
    way: Way,
    response: &SearchResponse,
    other: Option<&SearchResponse>,
) -> Markup {
    let most = |part: fn(&Evidence) -> Option<f32>| {
        response.evidence.iter().filter_map(part).fold(0.0_f32, f32::max)
    };
    let most =
        [most(|hit| Some(hit.score)), most(|hit| hit.dense_score), most(|hit| hit.sparse_score)];
    let beside = other.map(ranks);
    let timing = response.timing.unwrap_or_default();
    html! {
        section aria-label=(way.name) {
            h2 { (way.name) }
            p class="quiet" {
                (counted(response.evidence.len() as u64, "passage")) " in " (took(timing.total.as_ref()))
                ": " (took(timing.queue.as_ref())) " waiting, " (took(timing.compute.as_ref()))
                " embedding, " (took(timing.store.as_ref())) " in shards"
            }
            (structure::silent(&response.shards_missing))
            ol class="hits" {
                @for (place, hit) in response.evidence.iter().enumerate() {
                    li {
                        a href=(visitor.of_place(corpus, &place_of(hit))) { bdi { (name_of(&hit.title, &hit.document_id)) } }
                        @if let Some(beside) = &beside {
                            " " span class="quiet" {
                                @match beside.get(hit.chunk_id.as_str()) {
                                    Some(rank) if *rank == place + 1 => "same place beside",
                                    Some(rank) => { "place " (rank) " beside" }
                                    None => "not found beside",
                                }
                            }
                        }
                        dl class="scores" {
                            (part("score", Some(hit.score), most[0]))
                            (part("cosine", hit.dense_score, most[1]))
                            (part("BM25", hit.sparse_score, most[2]))
                        }
                        p class="passage" dir="auto" { (Exact(&hit.text)) }
                    }
                }
            }
        }
    }
}

/// Returns a part of a score, beside a bar by which it is compared with the best of the page.
fn part(name: &str, value: Option<f32>, most: f32) -> Markup {
    html! {
        div {
            dt { (name) }
            dd {
                @match value {
                    Some(value) => {
                        meter min="0" max=(most.max(f32::MIN_POSITIVE)) value=(value.max(0.0))
                            aria-label=(format!("{name}, beside the best")) {}
                        " " (format!("{value:.4}"))
                    }
                    None => span class="quiet" { "none" },
                }
            }
        }
    }
}

fn place_of(hit: &Evidence) -> Place {
    Place { document_id: hit.document_id.clone(), version: hit.version, span: hit.span }
}
