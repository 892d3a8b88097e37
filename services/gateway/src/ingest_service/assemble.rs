//! Assembly of the documents of a request stream from its messages.

use std::collections::HashSet;

use clew_core::{CorpusName, Document, Error, IfThere, Limits};
use clew_proto::convert::ingest::document_from_wire;
use clew_proto::ingest::v1 as wire;
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::to_status;
use futures::{Stream, StreamExt};
use tonic::Status;

/// One document of the stream, valid or refused.
#[derive(Debug)]
pub(super) struct Assembled {
    pub corpus: CorpusName,
    /// The id as the client sent it.
    pub id: String,
    pub document: Result<Document, Error>,
    /// Whether the document may replace an existing one.
    pub if_there: IfThere,
}

/// Maximum number of documents in one stream. Its ids are kept in memory to refuse duplicates.
const MAX_DOCUMENTS: usize = 1_000_000;

/// Reads messages and yields documents.
pub(super) struct Assembler<S> {
    requests: S,
    limits: Limits,
    corpus: Option<CorpusName>,
    ids: HashSet<String>,
}

impl<S> Assembler<S>
where
    S: Stream<Item = Result<wire::IngestRequest, Status>> + Unpin,
{
    pub fn new(requests: S, limits: Limits) -> Self {
        Self { requests, limits, corpus: None, ids: HashSet::new() }
    }

    /// Returns the next document. An error means that the stream itself is broken and ends.
    pub async fn next(&mut self) -> Option<Result<Assembled, Status>> {
        let request = match self.requests.next().await? {
            Ok(request) => request,
            Err(status) => return Some(Err(status)),
        };
        let assembled = self.assemble(request).await;
        Some(assembled)
    }

    async fn assemble(&mut self, request: wire::IngestRequest) -> Result<Assembled, Status> {
        let corpus = self.corpus_of(&request.corpus).map_err(|error| to_status(&error))?;
        let mut continues = request.continues;
        let (mut document, if_there) = match request.payload {
            Some(Payload::Document(document)) => (document, IfThere::Replace),
            Some(Payload::Addition(document)) => (document, IfThere::Refuse),
            Some(Payload::TextPart(_)) => {
                return Err(sequence("text_part", "expected a document first"));
            }
            None => return Err(sequence("payload", "expected a document or a text part")),
        };
        let mut text = Vec::from(document.text);
        let mut oversized = false;
        while continues {
            let part = match self.requests.next().await {
                Some(Ok(wire::IngestRequest {
                    payload: Some(Payload::TextPart(part)),
                    continues: more,
                    ..
                })) => {
                    continues = more;
                    part
                }
                Some(Ok(_)) => {
                    return Err(sequence("payload", "expected the text part that was announced"));
                }
                Some(Err(status)) => return Err(status),
                None => return Err(sequence("payload", "the stream ended in a document")),
            };
            // The rest of a text that is too long is read and discarded, so that the stream can
            // continue.
            oversized |= text.len() + part.len() > self.limits.document_bytes;
            if !oversized {
                text.extend_from_slice(&part);
            }
        }
        document.text = text.into();
        let id = document.id.clone();
        let document = if oversized {
            let limit = self.limits.document_bytes;
            Err(Error::invalid(
                "document.text",
                format!("expected at most {limit} bytes; split the document"),
            ))
        } else {
            self.check_id(&id).and_then(|()| document_from_wire(document, &self.limits))
        };
        Ok(Assembled { corpus, id, document, if_there })
    }

    fn corpus_of(&mut self, named: &str) -> Result<CorpusName, Error> {
        match &self.corpus {
            Some(corpus) if named.is_empty() || named == corpus.as_str() => Ok(corpus.clone()),
            Some(_) => Err(Error::invalid("corpus", "expected the corpus of the first message")),
            None => {
                let corpus: CorpusName = named.parse()?;
                self.corpus = Some(corpus.clone());
                Ok(corpus)
            }
        }
    }

    fn check_id(&mut self, id: &str) -> Result<(), Error> {
        if self.ids.len() >= MAX_DOCUMENTS {
            let problem =
                format!("expected at most {MAX_DOCUMENTS} documents; open another stream");
            return Err(Error::invalid("document", problem));
        }
        if self.ids.insert(id.to_owned()) {
            return Ok(());
        }
        Err(Error::invalid("document.id", "duplicate id: each may come once in a stream"))
    }
}

fn sequence(field: &str, problem: &str) -> Status {
    to_status(&Error::invalid(field, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(id: &str, text: &str, continues: bool) -> Result<wire::IngestRequest, Status> {
        let document = wire::Document {
            id: id.to_owned(),
            text: text.to_owned().into(),
            ..Default::default()
        };
        let payload = Some(Payload::Document(document));
        Ok(wire::IngestRequest { corpus: "notes".to_owned(), payload, continues })
    }

    fn part(text: &str, continues: bool) -> Result<wire::IngestRequest, Status> {
        let payload = Some(Payload::TextPart(text.to_owned().into()));
        Ok(wire::IngestRequest { corpus: String::new(), payload, continues })
    }

    async fn assemble(
        messages: Vec<Result<wire::IngestRequest, Status>>,
        document_bytes: usize,
    ) -> Vec<String> {
        let limits = Limits { document_bytes, ..Limits::default() };
        let mut assembler = Assembler::new(futures::stream::iter(messages), limits);
        let mut seen = Vec::new();
        while let Some(next) = assembler.next().await {
            seen.push(match next {
                Ok(Assembled { document: Ok(document), .. }) => document.text,
                Ok(Assembled { document: Err(error), .. }) => {
                    format!("refused {}", error.violations()[0].field)
                }
                Err(status) => {
                    seen.push(format!("broken {:?}", status.code()));
                    break;
                }
            });
        }
        seen
    }

    #[tokio::test]
    async fn texts_are_put_together_from_their_parts() {
        let messages = vec![
            begin("a", "one ", true),
            part("two ", true),
            part("three", false),
            begin("b", "x", false),
        ];
        assert_eq!(assemble(messages, 100).await, ["one two three", "x"]);
    }

    #[tokio::test]
    async fn a_refused_document_does_not_end_the_stream() {
        let messages = vec![
            begin("long", "12345", true),
            part("67890", true),
            part("1", false),
            begin("a", "x", false),
            begin("a", "y", false),
            begin("b", "z", false),
        ];
        let seen = assemble(messages, 10).await;
        assert_eq!(seen, ["refused document.text", "x", "refused document.id", "z"]);
    }

    #[tokio::test]
    async fn a_broken_sequence_ends_the_stream() {
        for messages in [
            vec![part("x", false)],
            vec![begin("a", "x", true)],
            vec![begin("a", "x", true), begin("b", "y", false)],
        ] {
            assert_eq!(assemble(messages, 10).await, ["broken InvalidArgument"]);
        }
    }
}
