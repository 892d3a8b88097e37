//! The graph of a corpus: what is around an entity, as a picture and as lists, with the sentences
//! that say so.
//!
//! A page asks for the part that it shows, so its cost does not grow with the graph.

mod drawing;
mod part;
#[cfg(test)]
mod testing;

use clew_core::CorpusName;
use clew_proto::from_status;
use clew_proto::ingest::v1::{DocumentState, ListDocumentsRequest};
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::memory::v1::{
    Entity, GraphQuery, ReadGraphRequest, ReadGraphResponse, Relation, Subgraph,
};
use clew_proto::query::v1::{Place, Span};
use maud::{Markup, html};

use self::part::{KINDS, MOST_ENTITIES, MOST_RELATIONS, Part, Shown as ShownEntity, kind};
use super::Shown;
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::structure;
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{Exact, count, counted};
use crate::visitor::{OfCorpus, Visitor};

/// Entities up to which those are counted that a page leaves out.
const COUNTED: u32 = 1000;
/// Documents in which a page without a question finds entities to begin with.
const FIRST_DOCUMENTS: u32 = 10;
/// Most of these entities.
const FIRST_ENTITIES: u32 = 40;
/// Most other names of an entity.
const ALIASES: usize = 3;

/// Where a part of the graph begins.
#[derive(Clone, Debug)]
enum Begin {
    /// At the entities that a text names.
    Text(String),
    /// At an entity, by its key.
    Entity(String),
    /// At the entities of a place in a document.
    Place(Place),
}

impl Begin {
    /// Returns what the page's address says. Returns `None` if it says nothing.
    fn of(visitor: &Visitor) -> Result<Option<Self>, Failed> {
        let query = &visitor.query;
        if query.has("q") {
            return Ok(Some(Self::Text(query.get("q").to_owned())));
        }
        if query.has("entity") {
            return Ok(Some(Self::Entity(query.raw("entity").to_owned())));
        }
        if !query.has("id") {
            return Ok(None);
        }
        let start = query.number("start")?.unwrap_or_default();
        let span = Span { start, end: query.number("end")?.unwrap_or(u64::MAX) };
        Ok(Some(Self::Place(Place {
            document_id: query.raw("id").to_owned(),
            version: query.number("version")?.unwrap_or_default(),
            span: Some(span),
        })))
    }

    /// Returns the query for what is at most `hops` relations away. All entities of a place are
    /// shown, and nothing around them.
    fn query(&self, hops: u32) -> GraphQuery {
        let query = GraphQuery {
            hops,
            most_entities: MOST_ENTITIES,
            most_relations: MOST_RELATIONS,
            ..GraphQuery::default()
        };
        match self.clone() {
            Self::Text(text) => GraphQuery { texts: vec![text], ..query },
            Self::Entity(key) => GraphQuery { entities: vec![key], ..query },
            Self::Place(place) => GraphQuery { places: vec![place], hops: 0, ..query },
        }
    }
}

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let hops: u32 = visitor.query.number("hops")?.unwrap_or(1).clamp(1, 2);
    let read = match Begin::of(&visitor)? {
        Some(from) => around(&visitor, &corpus, &from, hops).await,
        None => beginnings(&visitor, &corpus).await,
    };
    let (name, shown) = match read {
        Ok(read) => read,
        Err(failed) if structure::is_lacking(&failed) => (String::new(), structure::lacking()),
        Err(failed) => return Err(failed),
    };
    let content = html! {
        h1 { "Graph" }
        p { "Entities that documents name, and what the documents say of them." }
        form class="fields line" method="get" action=(visitor.of(&corpus, "graph", &[])) {
            label for="q" { "Entity" }
            input id="q" class="long" name="q" type="search" required value=(name) dir="auto";
            label for="hops" { "Shown around it" }
            select id="hops" name="hops" {
                option value="1" selected[hops == 1] { "what is related" }
                option value="2" selected[hops == 2] { "and what is related to that" }
            }
            button { "Show" }
        }
        (shown)
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Graph), "Graph", content))
}

async fn read(
    visitor: &Visitor,
    corpus: &CorpusName,
    query: GraphQuery,
    with_quotes: bool,
) -> Result<ReadGraphResponse, Failed> {
    let request = ReadGraphRequest { corpus: corpus.to_string(), query: Some(query), with_quotes };
    let read = MemoryServiceClient::new(visitor.client.services()).read_graph(request).await;
    Ok(read.map_err(|status| from_status(&status))?.into_inner())
}

/// Reads the part of the graph that begins somewhere. Returns what to write into the field for an
/// entity, and the part.
async fn around(
    visitor: &Visitor,
    corpus: &CorpusName,
    from: &Begin,
    hops: u32,
) -> Result<(String, Markup), Failed> {
    let ReadGraphResponse { graph, shards_missing } =
        read(visitor, corpus, from.query(hops), true).await?;
    let graph = graph.unwrap_or_default();
    let (is_cut, is_being_built) = (graph.is_cut, graph.is_being_built);
    let part = Part::of(graph);
    let left_out = match is_cut || part.is_cut {
        true => left_out(visitor, corpus, from, hops, &part).await?,
        false => LeftOut::default(),
    };
    let seeds: Vec<&str> = part.seeds().map(|seed| seed.name.as_str()).collect();
    let name = match from {
        Begin::Text(text) => text.clone(),
        Begin::Entity(_) => seeds.first().map_or_else(String::new, ToString::to_string),
        Begin::Place(_) => String::new(),
    };
    let shown = html! {
        (structure::silent(&shards_missing))
        @if is_being_built {
            p class="quiet" { "Documents are still being added to the graph; what they say may be missing." }
        }
        @if part.entities.is_empty() {
            (unknown(from))
        } @else {
            h2 {
                @match from {
                    Begin::Place(place) => {
                        "Entities of a part of "
                        a href=(visitor.of_place(corpus, place)) { bdi { (place.document_id) } }
                    }
                    Begin::Text(_) | Begin::Entity(_) => {
                        "Around "
                        @for (place, seed) in seeds.iter().enumerate() {
                            @if place > 0 { ", " }
                            bdi { (seed) }
                        }
                    }
                }
            }
            (told(&part, &left_out))
            (drawn(visitor, corpus, hops, &part))
            (entities(visitor, corpus, hops, &part))
            (relations(visitor, corpus, &part))
        }
    };
    Ok((name, shown))
}

/// What a page leaves out.
#[derive(Debug, Default)]
struct LeftOut {
    entities: usize,
    /// Whether there may be more of them.
    are_more: bool,
    are_relations: bool,
}

/// Counts what a part leaves out, as far as it is worth it.
async fn left_out(
    visitor: &Visitor,
    corpus: &CorpusName,
    from: &Begin,
    hops: u32,
    part: &Part,
) -> Result<LeftOut, Failed> {
    let query = GraphQuery { most_entities: COUNTED, most_relations: 1, ..from.query(hops) };
    let all = read(visitor, corpus, query, false).await?.graph.unwrap_or_default().entities.len();
    Ok(LeftOut {
        entities: all.saturating_sub(part.entities.len()),
        are_more: all >= COUNTED as usize,
        are_relations: part.relations.len() >= MOST_RELATIONS as usize,
    })
}

fn unknown(from: &Begin) -> Markup {
    html! {
        p {
            @match from {
                Begin::Text(_) => {
                    "The graph knows nothing that this names. Names are compared as a whole, without "
                    "case and accents: a part of a name finds it only if documents use it alone."
                }
                Begin::Entity(_) => "The graph does not know this entity any more.",
                Begin::Place(_) => "The graph knows no entity of this part, or the document has changed since.",
            }
        }
    }
}

fn told(part: &Part, left_out: &LeftOut) -> Markup {
    let shown = counted(part.relations.len() as u64, "relation");
    html! {
        p {
            @if part.entities.len() == 1 { "1 entity" }
            @else { (count(part.entities.len() as u64)) " entities" }
            ", " (shown) "."
            @if left_out.entities > 0 {
                " " strong {
                    @if left_out.are_more { "At least " }
                    (count(left_out.entities as u64)) " more"
                }
                @if left_out.entities == 1 { " entity is left out." } @else { " entities are left out." }
            }
            @if left_out.are_relations { " Further relations are left out." }
        }
    }
}

/// Returns the address of the page around an entity.
fn at(visitor: &Visitor, corpus: &CorpusName, hops: u32, entity: &Entity) -> String {
    let hops = if hops == 1 { "" } else { "2" };
    visitor.of(corpus, "graph", &[("entity", &entity.key), ("hops", hops)])
}

fn drawn(visitor: &Visitor, corpus: &CorpusName, hops: u32, part: &Part) -> Markup {
    let around = |entity: &Entity| at(visitor, corpus, hops, entity);
    let relation = |relation| format!("#relation-{relation}");
    let has = |one| part.entities.iter().any(|shown| shown.entity.kind() == one);
    html! {
        (drawing::drawing("Picture of the entities and relations", part, around, relation))
        p class="legend" aria-hidden="true" {
            @for (one, name, _) in KINDS.into_iter().filter(|(one, ..)| has(*one)) {
                span {
                    svg class="symbol" width="18" height="18" viewBox="-9 -9 18 18" {
                        (drawing::symbol(one, 0.0, 0.0, 6.0))
                    }
                    (name)
                }
            }
        }
        p class="quiet" {
            "The lists below say the same as the picture. An entity leads to what is around it, a line to the "
            "sentences below."
        }
    }
}

fn entities(visitor: &Visitor, corpus: &CorpusName, hops: u32, part: &Part) -> Markup {
    let columns =
        [Words("Entity"), Words("Kind"), Words("Where"), Number("Segments"), Words("Also called")];
    let rows = html! {
        @for ShownEntity { entity, ring } in &part.entities {
            tr {
                th scope="row" { a href=(at(visitor, corpus, hops, entity)) { bdi { (entity.name) } } }
                td { (kind(entity.kind()).0) }
                td {
                    @match ring {
                        0 => "in the middle",
                        1 => "beside it",
                        _ => "further away",
                    }
                }
                td class="number" { (count(entity.mentioned_in)) }
                td {
                    @for alias in entity.aliases.iter().take(ALIASES) { bdi { (alias) } " " }
                }
            }
        }
    };
    html! {
        h2 { "Entities" }
        (table("Entities", &columns, &rows))
    }
}

fn relations(visitor: &Visitor, corpus: &CorpusName, part: &Part) -> Markup {
    let places = part.places();
    let name = |key: &str| {
        let shown = places.get(key).map(|at| &part.entities[*at]);
        html! { bdi { (shown.map_or(key, |shown| shown.entity.name.as_str())) } }
    };
    html! {
        h2 { "Relations" }
        @if part.relations.is_empty() {
            p { "No sentence relates them." }
        }
        ol class="relations" {
            @for (at, relation) in part.relations.iter().enumerate() {
                li id=(format!("relation-{at}")) {
                    strong { (name(&relation.head)) } " " bdi { (relation.text) } " "
                    strong { (name(&relation.tail)) }
                    (sentence(visitor, corpus, relation))
                }
            }
        }
    }
}

/// Returns the sentence that states a relation, and the way to it.
fn sentence(visitor: &Visitor, corpus: &CorpusName, relation: &Relation) -> Markup {
    let segment = relation.segment.clone().unwrap_or_default();
    let span = relation.evidence.unwrap_or_default();
    let place = Place {
        document_id: segment.document_id,
        version: segment.version,
        span: relation.evidence,
    };
    html! {
        @if !relation.quote.is_empty() {
            blockquote dir="auto" { (Exact(&relation.quote)) }
        }
        div class="quiet" {
            a href=(visitor.of_place(corpus, &place)) { bdi { (place.document_id) } }
            ", bytes " (count(span.start)) " to " (count(span.end))
        }
    }
}

/// Reads entities to begin with: those of the first documents.
async fn beginnings(visitor: &Visitor, corpus: &CorpusName) -> Result<(String, Markup), Failed> {
    let request = ListDocumentsRequest {
        corpus: corpus.to_string(),
        page_size: FIRST_DOCUMENTS,
        ..Default::default()
    };
    let listed = visitor.client.documents_page(request).await?.documents;
    let place = |document: DocumentState| Place {
        document_id: document.id,
        version: document.live_version,
        span: Some(Span { start: 0, end: document.text_bytes }),
    };
    let query = GraphQuery {
        places: listed
            .into_iter()
            .filter(|document| document.live_version > 0)
            .map(place)
            .collect(),
        most_entities: FIRST_ENTITIES,
        most_relations: 1,
        ..GraphQuery::default()
    };
    let ReadGraphResponse { graph, shards_missing } = read(visitor, corpus, query, false).await?;
    let Subgraph { mut entities, is_being_built, .. } = graph.unwrap_or_default();
    entities.sort_by(|a, b| a.name.cmp(&b.name));
    let shown = html! {
        (structure::silent(&shards_missing))
        @if entities.is_empty() {
            p {
                @if is_being_built { "The graph is being built; look again in a while." }
                @else { "The graph has no entity yet. Documents that name some are read after they can be found." }
            }
        } @else {
            h2 { "To begin with" }
            p class="quiet" { "Entities that the first documents name." }
            ul class="words" {
                @for entity in &entities {
                    li {
                        a href=(at(visitor, corpus, 1, entity)) { bdi { (entity.name) } }
                        " " span class="quiet" { (kind(entity.kind()).0) }
                    }
                }
            }
        }
    };
    Ok((String::new(), shown))
}
