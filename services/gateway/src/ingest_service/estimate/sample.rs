//! Typical documents for an estimate, and the chunks and segments that they are cut into.

use std::time::Instant;

use clew_core::{
    Attributes, Corpus, CorpusSettings, Document, Encoder, Error, Labels, Limits, ListQuery,
    MediaType, Span, Violations,
};
use clew_proto::convert::ingest as convert;
use clew_proto::ingest::v1 as wire;

use super::run::Run;

/// Maximum bytes of all samples together, and maximum number of samples.
const SAMPLE_BYTES: usize = 1 << 20;
const MOST_SAMPLES: usize = 4096;
/// Maximum number of documents of the corpus that serve as samples, and maximum bytes of each.
const OWN_SAMPLES: usize = 32;
const OWN_SAMPLE_BYTES: usize = 64 << 10;
/// English text to use if there are no other samples.
const TYPICAL: &str = include_str!("typical.txt");

/// Typical documents: at least one, of which at least one has text.
pub(super) struct Samples {
    pub basis: wire::EstimateBasis,
    pub documents: Vec<Document>,
}

impl Samples {
    /// Returns the bytes of each sample's text.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.documents.iter().map(|document| document.text.len()).collect()
    }
}

/// Returns the samples of a request, or `None` if it has none.
pub(super) fn given(
    request: wire::EstimateIngestionRequest,
    limits: &Limits,
) -> Result<Option<Samples>, Error> {
    let texts: usize = request.samples.iter().map(|sample| sample.len()).sum();
    let whole: usize = request.sample_documents.iter().map(|sample| sample.text.len()).sum();
    if texts + whole > SAMPLE_BYTES {
        let problem =
            format!("expected at most {SAMPLE_BYTES} bytes in all, got {}", texts + whole);
        let field = if whole > 0 { "sample_documents" } else { "samples" };
        return Err(Error::invalid(field, problem));
    }
    for (field, count) in
        [("samples", request.samples.len()), ("sample_documents", request.sample_documents.len())]
    {
        if count > MOST_SAMPLES {
            return Err(Error::invalid(
                field,
                format!("expected at most {MOST_SAMPLES}, got {count}"),
            ));
        }
    }
    let mut violations = Violations::default();
    let mut documents = Vec::new();
    for (i, sample) in request.samples.into_iter().enumerate() {
        match String::from_utf8(sample.into()) {
            Ok(text) => documents.push(plain(i, text)?),
            Err(_) => violations.push(format!("samples[{i}]"), "expected UTF-8"),
        }
    }
    for (i, sample) in request.sample_documents.into_iter().enumerate() {
        match convert::document_from_wire(sample, limits) {
            Ok(document) => documents.push(document),
            Err(error) => {
                for violation in error.violations() {
                    let field = violation.field.replacen("document", "", 1);
                    let field = format!("sample_documents[{i}]{field}");
                    violations.push(field, violation.description.clone());
                }
            }
        }
    }
    violations.into_result()?;
    let has_text = documents.iter().any(|document| !document.text.is_empty());
    let basis = wire::EstimateBasis::Request;
    Ok(has_text.then_some(Samples { basis, documents }))
}

/// Returns documents of the corpus. For an empty corpus, returns an English text of the ingestion's
/// mean length.
pub(super) async fn of_corpus(
    corpus: &Corpus,
    run: &Run,
    deadline: Instant,
) -> Result<Samples, Error> {
    let own = own(corpus, deadline).await?;
    if own.iter().any(|document| !document.text.is_empty()) {
        return Ok(Samples { basis: wire::EstimateBasis::Corpus, documents: own });
    }
    english(run)
}

/// Returns an English text of the ingestion's mean length.
pub(super) fn english(run: &Run) -> Result<Samples, Error> {
    let each = run.text_bytes / run.documents.max(1);
    let bytes = usize::try_from(each).unwrap_or(usize::MAX).clamp(1, SAMPLE_BYTES / 4);
    let mut text = TYPICAL.repeat(bytes / TYPICAL.len() + 1);
    text.truncate(text.floor_char_boundary(bytes));
    let documents = vec![plain(0, text)?];
    Ok(Samples { basis: wire::EstimateBasis::English, documents })
}

async fn own(corpus: &Corpus, deadline: Instant) -> Result<Vec<Document>, Error> {
    let limit = OWN_SAMPLES.div_ceil(corpus.shards().len().max(1));
    let (mut found, mut bytes) = (Vec::new(), 0);
    for shard in corpus.shards() {
        let query = ListQuery { after: None, limit, state: None };
        for status in shard.list(&query, deadline).await? {
            let Some((stored, _)) = shard.document(&status.document_id, deadline).await? else {
                continue;
            };
            let mut document = stored.document;
            document.text.truncate(document.text.floor_char_boundary(OWN_SAMPLE_BYTES));
            bytes += document.text.len();
            if bytes > SAMPLE_BYTES {
                return Ok(found);
            }
            found.push(document);
        }
    }
    Ok(found)
}

fn plain(number: usize, text: String) -> Result<Document, Error> {
    Ok(Document {
        id: format!("sample {number}").parse()?,
        text,
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    })
}

/// Chunks and segments of the samples.
#[derive(Default)]
pub(super) struct Cut {
    pub documents: Vec<CutDocument>,
    pub chunks: u64,
    pub tokens: u64,
    /// Bytes of the chunks' passages.
    pub passage_bytes: u64,
    /// Bytes of the chunks' key texts.
    pub key_bytes: u64,
    /// Bytes of the titles that chunks carry.
    pub chunk_title_bytes: u64,
    /// Bytes of the documents' titles.
    pub title_bytes: u64,
}

/// A document and its segments, which are empty if the corpus has no trees.
pub(super) struct CutDocument {
    pub document: Document,
    pub segments: Vec<Span>,
}

impl Samples {
    /// Cuts the samples with the functions of the indexer.
    pub(super) fn cut(self, settings: &CorpusSettings, encoder: &dyn Encoder) -> Cut {
        let token_spans = |text: &str| encoder.token_spans(text);
        let window = encoder.identity().max_tokens as usize;
        let mut all = Cut::default();
        for document in self.documents {
            let mut chunks = clew_text::chunk(&document, &settings.chunking, &token_spans, window);
            let count = chunks.len();
            chunks.extend(clew_chat::statement_chunks(&document, count, &token_spans, window));
            for chunk in &chunks {
                all.chunks += 1;
                all.tokens += u64::from(chunk.tokens);
                all.passage_bytes += (chunk.span.end - chunk.span.start) as u64;
                all.key_bytes += chunk.key_text.len() as u64;
                all.chunk_title_bytes += document.title.len() as u64;
            }
            all.title_bytes += document.title.len() as u64;
            let segments = settings.structure.map(|structure| {
                clew_text::segments(&document, structure.segment_tokens, &token_spans)
            });
            let segments = segments.unwrap_or_default();
            all.documents.push(CutDocument { document, segments });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(sample_documents: Vec<wire::Document>) -> Result<Option<Samples>, Error> {
        let request = wire::EstimateIngestionRequest { sample_documents, ..Default::default() };
        given(request, &Limits::default())
    }

    #[test]
    fn what_is_wrong_with_samples_is_told_by_their_fields() {
        let document = |id: &str, text: &[u8]| wire::Document {
            id: id.to_owned(),
            text: text.to_vec().into(),
            ..Default::default()
        };
        let good = document("a", b"Ada met Bob.");
        let refused = asked(vec![good.clone(), document("", b"x"), document("c", b"\xff")]);
        let refused = refused.map(|_| ()).unwrap_err();
        let fields: Vec<&str> = refused.violations().iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, ["sample_documents[1].id", "sample_documents[2].text"]);
        let large = asked(vec![document("a", &vec![b'a'; SAMPLE_BYTES + 1])]);
        assert_eq!(large.map(|_| ()).unwrap_err().violations()[0].field, "sample_documents");
        let many = asked(vec![document("", b"x"); MOST_SAMPLES + 1]);
        assert_eq!(many.map(|_| ()).unwrap_err().violations()[0].field, "sample_documents");
        assert_eq!(asked(vec![good]).unwrap().unwrap().sizes(), [12]);
        assert!(asked(Vec::new()).unwrap().is_none());
    }
}
