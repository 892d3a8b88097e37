//! One document: its text, with its chunks as bands and a cited range marked.

use std::ops::Range;

use clew_client::name_of;
use clew_core::{CorpusName, DocumentId};
use clew_proto::from_status;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::ingest::v1::{
    ChunkKind, Document, DocumentChunk, DocumentStage, DocumentState, GetDocumentRequest,
    GetDocumentResponse, ListChunksRequest, ListDocumentsRequest,
};
use maud::{Markup, html};

use super::{Shown, documents};
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{Exact, count, counted, size, time};
use crate::visitor::{OfCorpus, Visitor};

/// Most bytes of a text on one page: what people scroll through, and browsers lay out at once.
const PAGE_BYTES: usize = 48 << 10;
/// Bytes in front of a marked range, so that it is read in its context.
const CONTEXT_BYTES: u64 = 2 << 10;
/// Chunks that are asked for at once, as many as a call gives.
const CHUNKS_AT_ONCE: u32 = 1000;
/// Calls for chunks. Texts that have more chunks in front of the page are shown without bands.
const CHUNK_CALLS: usize = 20;
/// Bytes to search for the start of a character: a character has at most four.
const CHARACTER_BYTES: u64 = 4;

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let id = visitor.query.raw("id").parse::<DocumentId>()?;
    let marked = match (visitor.query.number::<u64>("start")?, visitor.query.number("end")?) {
        (Some(start), Some(end)) if start < end => Some(start..end),
        _ => None,
    };
    let asked_at = visitor.query.number::<u64>("at")?;
    let around = marked.as_ref().map(|marked| marked.start.saturating_sub(CONTEXT_BYTES));
    let from = asked_at.or(around).unwrap_or_default();
    let part = Part::read(&visitor, &corpus, &id, from).await?;
    // A mark at another version's bytes would be wrong, which is worse than none.
    let cited: Option<u64> = visitor.query.number("version")?;
    let is_current = cited.is_none_or(|version| version == part.state.version);
    let marked = marked.filter(|_| is_current);
    let chunks = chunks(&visitor, &corpus, &id, &part).await?;
    let newest = newest(&visitor, &corpus, &part).await?;
    let content = html! {
        h1 { bdi { (name_of(&part.document.title, id.as_str())) } }
        @if !is_current {
            p class="problem" role="alert" {
                "The document has changed since it was cited, so the cited place is not marked."
            }
        }
        (facts(&part))
        @if visitor.may_write() {
            form class="line" method="post" action=(visitor.of(&corpus, "forget", &[])) {
                input type="hidden" name="id" value=(id);
                button { "Forget…" }
            }
        }
        h2 { "Versions" }
        (versions(&part, newest.as_ref()))
        @if part.state.nodes > 0 { (derived(&visitor, &corpus, &part)) }
        h2 { "Text" }
        (turning(&visitor, &corpus, &id, &part, "Parts of the text"))
        @if chunks.is_empty() {
            p class="quiet" { "No chunks of this part are known yet." }
        } @else {
            p class="quiet" {
                "Each band is a chunk, which searches find as one; where two chunks overlap, the band is "
                span class="overlap" { "underlined" } "."
            }
        }
        div class="stored" dir="auto" data-start=(part.range().start) {
            (text(&part, &chunks, marked.as_ref()))
        }
        (turning(&visitor, &corpus, &id, &part, "Parts of the text, at its end"))
        @if !chunks.is_empty() { (of_part(&chunks)) }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Documents), id.as_str(), content))
}

/// A part of a document's text.
#[derive(Debug)]
struct Part {
    document: Document,
    state: DocumentState,
    text: String,
    /// Byte of the whole text at which the part begins.
    start: u64,
}

impl Part {
    /// Reads the part that begins at the byte `from`, or at the character that this byte is of.
    async fn read(
        visitor: &Visitor,
        corpus: &CorpusName,
        id: &DocumentId,
        from: u64,
    ) -> Result<Self, Failed> {
        let mut start = from;
        let read = loop {
            match read(visitor, corpus, id, start).await {
                Ok(read) => break read,
                // The services refuse to split a character.
                Err(refused)
                    if start > 0
                        && from - start < CHARACTER_BYTES
                        && refused.reason() == "INVALID_INPUT" =>
                {
                    start -= 1;
                }
                Err(failed) => return Err(failed),
            }
        };
        let GetDocumentResponse { document, state } = read;
        let mut document = document.unwrap_or_default();
        let mut text = String::from_utf8_lossy(&std::mem::take(&mut document.text)).into_owned();
        text.truncate(text.floor_char_boundary(PAGE_BYTES));
        Ok(Self { document, state: state.unwrap_or_default(), text, start })
    }

    /// Returns the bytes of the whole text that the part has.
    fn range(&self) -> Range<u64> {
        self.start..self.start + self.text.len() as u64
    }
}

async fn read(
    visitor: &Visitor,
    corpus: &CorpusName,
    id: &DocumentId,
    text_offset: u64,
) -> Result<GetDocumentResponse, Failed> {
    let request =
        GetDocumentRequest { corpus: corpus.to_string(), document_id: id.to_string(), text_offset };
    let mut documents = IngestServiceClient::new(visitor.client.services());
    let read = documents.get_document(request).await;
    Ok(read.map_err(|status| from_status(&status))?.into_inner())
}

/// Returns the chunks that lie in a part of the text.
async fn chunks(
    visitor: &Visitor,
    corpus: &CorpusName,
    id: &DocumentId,
    part: &Part,
) -> Result<Vec<DocumentChunk>, Failed> {
    let (range, mut found, mut page_token) = (part.range(), Vec::new(), String::new());
    for _ in 0..CHUNK_CALLS {
        let asked = ListChunksRequest {
            corpus: corpus.to_string(),
            document_id: id.to_string(),
            with_texts: false,
            page_size: CHUNKS_AT_ONCE,
            page_token,
        };
        let page = visitor.client.chunks_page(asked).await?;
        if page.version != part.state.version {
            return Ok(Vec::new());
        }
        let is_past = page.chunks.last().is_none_or(|chunk| chunk.start >= range.end);
        let is_here = |chunk: &DocumentChunk| {
            chunk.kind() == ChunkKind::Passage && chunk.start < range.end && chunk.end > range.start
        };
        found.extend(page.chunks.into_iter().filter(is_here));
        page_token = page.next_page_token;
        if is_past || page_token.is_empty() {
            break;
        }
    }
    Ok(found)
}

fn facts(part: &Part) -> Markup {
    let Part { document, state, .. } = part;
    html! {
        dl class="pairs" {
            dt { "Id" }
            dd { code { bdi { (document.id) } } }
            dt { "State" }
            dd { (documents::stage(state)) }
            @if !state.last_error.is_empty() {
                dt { "Last error" }
                dd { (state.last_error) }
            }
            dt { "Text" }
            dd { (size(state.text_bytes)) ", " (counted(state.chunks.into(), "chunk")) }
            @if state.nodes > 0 { dt { "Tree" } dd { (counted(state.nodes, "node")) } }
            @if document.event_time.is_some() {
                dt { "Happened" }
                dd { (time(document.event_time.as_ref())) }
            }
            dt { "Labels" }
            dd { (documents::labels(&state.labels)) }
            @for attribute in &document.attributes {
                dt { bdi { (attribute.name) } }
                dd { bdi { (attribute.value) } }
            }
        }
    }
}

/// Returns the state of a newer version than the one that the page shows, if there is one.
async fn newest(
    visitor: &Visitor,
    corpus: &CorpusName,
    part: &Part,
) -> Result<Option<DocumentState>, Failed> {
    if part.state.stage() == DocumentStage::Indexed {
        return Ok(None);
    }
    let request = ListDocumentsRequest {
        corpus: corpus.to_string(),
        // No id that begins with this one comes before it.
        id_prefix: part.document.id.clone(),
        page_size: 1,
        ..Default::default()
    };
    let listed = visitor.client.documents_page(request).await?.documents.into_iter().next();
    let is_newer =
        |state: &DocumentState| state.id == part.document.id && state.version > part.state.version;
    Ok(listed.filter(is_newer))
}

/// Returns the versions that are stored of a document, the newest first: the one that the page
/// shows, and one that waits to take its place.
fn versions(part: &Part, newest: Option<&DocumentState>) -> Markup {
    let Part { state, .. } = part;
    let columns = [
        Words("Version"),
        Words("State"),
        Words("Accepted"),
        Number("Text"),
        Words("Number in its source"),
    ];
    let source = |state: &DocumentState| {
        html! { @match state.source_version { Some(version) => (version), None => "–" } }
    };
    let rows = html! {
        @if let Some(newest) = newest {
            tr {
                th scope="row" { (newest.version) }
                td { (documents::stage(newest)) }
                td { (time(newest.accepted_at.as_ref())) }
                td class="number" { (size(newest.text_bytes)) }
                td { (source(newest)) }
            }
        }
        tr {
            th scope="row" { (state.version) }
            td {
                @match newest {
                    Some(_) => span class="state good" { "searchable" },
                    None => (documents::stage(state)),
                }
                ", shown below"
            }
            // The services tell this of the newest version alone.
            td { @if newest.is_none() { (time(state.accepted_at.as_ref())) } @else { "–" } }
            td class="number" { (size(state.text_bytes)) }
            td { (source(state)) }
        }
    };
    html! {
        (table("Versions", &columns, &rows))
        p class="quiet" { "A new version replaces the one before it, once searches can find the new one." }
    }
}

/// Returns the links to what was derived from the part that the page shows.
fn derived(visitor: &Visitor, corpus: &CorpusName, part: &Part) -> Markup {
    let [version, start, end] =
        [part.state.version, part.range().start, part.range().end].map(|number| number.to_string());
    let id = part.document.id.as_str();
    let place = [("id", id), ("version", &version), ("start", &start), ("end", &end)];
    html! {
        p {
            a href=(visitor.of(corpus, "tree", &[("id", id)])) { "Its tree of summaries" } ", and "
            a href=(visitor.of(corpus, "graph", &place)) { "the entities of this part" } "."
        }
    }
}

/// Returns the links to the parts before and after this one.
fn turning(
    visitor: &Visitor,
    corpus: &CorpusName,
    id: &DocumentId,
    part: &Part,
    name: &str,
) -> Markup {
    let (range, whole) = (part.range(), part.state.text_bytes);
    let at = |byte: u64| {
        visitor.of(corpus, "document", &[("id", id.as_str()), ("at", &byte.to_string())])
    };
    html! {
        @if range.start > 0 || range.end < whole {
            nav class="pages" aria-label=(name) {
                span { "Bytes " (count(range.start)) " to " (count(range.end)) " of " (count(whole)) }
                @if range.start > 0 {
                    a rel="prev" href=(at(range.start.saturating_sub(PAGE_BYTES as u64))) { "Before" }
                }
                @if range.end < whole { a rel="next" href=(at(range.end)) { "After" } }
            }
        }
    }
}

/// A piece of a text that no chunk and no mark begins or ends in.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    range: Range<usize>,
    /// Ordinal of the first chunk that it is of.
    chunk: Option<u32>,
    is_overlap: bool,
    is_marked: bool,
}

/// Cuts a text of which `chunks` and `marked` say bytes, from the text's `start` on.
fn pieces(
    text: &str,
    start: u64,
    chunks: &[DocumentChunk],
    marked: Option<&Range<u64>>,
) -> Vec<Piece> {
    // Bytes that split a character would be of another text, and are moved to its start.
    let within = |byte: u64| {
        let byte = usize::try_from(byte.saturating_sub(start)).unwrap_or(usize::MAX);
        text.floor_char_boundary(byte.min(text.len()))
    };
    let chunks: Vec<_> = chunks
        .iter()
        .map(|chunk| (within(chunk.start)..within(chunk.end), chunk.ordinal))
        .collect();
    let marked = marked.map(|marked| within(marked.start)..within(marked.end));
    let mut cuts = vec![0, text.len()];
    for range in chunks.iter().map(|(range, _)| range).chain(&marked) {
        cuts.extend([range.start, range.end]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let piece = |cut: &[usize]| {
        let range = cut[0]..cut[1];
        let mut of = chunks.iter().filter(|(chunk, _)| chunk.contains(&range.start));
        Piece {
            chunk: of.next().map(|(_, ordinal)| *ordinal),
            is_overlap: of.next().is_some(),
            is_marked: marked.as_ref().is_some_and(|marked| marked.contains(&range.start)),
            range,
        }
    };
    cuts.windows(2).map(piece).collect()
}

fn text(part: &Part, chunks: &[DocumentChunk], marked: Option<&Range<u64>>) -> Markup {
    let pieces = pieces(&part.text, part.start, chunks, marked);
    let first = pieces.iter().position(|piece| piece.is_marked);
    html! {
        @for (place, piece) in pieces.iter().enumerate() {
            @let class = match (piece.chunk, piece.is_overlap) {
                (None, _) => "",
                (Some(ordinal), true) => if ordinal % 2 == 0 { "band even overlap" } else { "band odd overlap" },
                (Some(ordinal), false) => if ordinal % 2 == 0 { "band even" } else { "band odd" },
            };
            @let shown = html! { (Exact(&part.text[piece.range.clone()])) };
            @if piece.is_marked {
                mark class=(class) id=[(first == Some(place)).then_some("cited")] { (shown) }
            } @else {
                span class=(class) { (shown) }
            }
        }
    }
}

fn of_part(chunks: &[DocumentChunk]) -> Markup {
    let columns = [Number("Chunk"), Number("From byte"), Number("To byte"), Number("Tokens")];
    let rows = html! {
        @for chunk in chunks {
            tr {
                th scope="row" class="number" { (chunk.ordinal) }
                td class="number" { (count(chunk.start)) }
                td class="number" { (count(chunk.end)) }
                td class="number" { (count(chunk.tokens.into())) }
            }
        }
    };
    html! {
        details {
            summary { (counted(chunks.len() as u64, "chunk")) " of this part" }
            (table("Chunks", &columns, &rows))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(ordinal: u32, range: Range<u64>) -> DocumentChunk {
        DocumentChunk { ordinal, start: range.start, end: range.end, ..DocumentChunk::default() }
    }

    #[test]
    fn a_text_is_cut_where_chunks_and_marks_begin_and_end() {
        let chunks = [chunk(0, 0..6), chunk(1, 4..10)];
        let pieces = pieces("abcdefghijkl", 0, &chunks, Some(&(5..7)));
        let piece = |range: Range<usize>, chunk, is_overlap, is_marked| Piece {
            range,
            chunk,
            is_overlap,
            is_marked,
        };
        assert_eq!(
            pieces,
            [
                piece(0..4, Some(0), false, false),
                piece(4..5, Some(0), true, false),
                piece(5..6, Some(0), true, true),
                piece(6..7, Some(1), false, true),
                piece(7..10, Some(1), false, false),
                piece(10..12, None, false, false),
            ]
        );
    }

    #[test]
    fn the_pieces_of_a_part_are_the_part_whatever_is_said_of_it() {
        let text = "ä€😀z";
        for start in 0..20 {
            for end in start..30 {
                let said = [chunk(7, start..end), chunk(8, 0..u64::MAX)];
                let pieces = pieces(text, 5, &said, Some(&(end..end + 3)));
                let whole: String = pieces.iter().map(|piece| &text[piece.range.clone()]).collect();
                assert_eq!(whole, text);
            }
        }
        assert!(pieces("", 0, &[], None).is_empty());
    }
}
