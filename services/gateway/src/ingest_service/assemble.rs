//! Assembly of the documents of a request stream from its messages.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use clew_core::{CorpusName, Document, Error, IfThere, Limits};
use clew_proto::convert::ingest::document_from_wire;
use clew_proto::ingest::v1 as wire;
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::to_status;
use clew_runtime::admission::{Gate, Permit};
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
    /// Room that it takes until its shard has room for it, if it arrived in parts.
    pub room: Option<Room>,
}

/// Room for a text that arrives in parts.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
    _permit: Permit,
}

/// Maximum number of documents in one stream. Its ids are kept in memory to refuse duplicates.
const MAX_DOCUMENTS: usize = 1_000_000;
/// Longest wait for room for a document that arrives in parts.
const ROOM_PATIENCE: Duration = Duration::from_secs(120);

/// Reads messages and yields documents.
pub(super) struct Assembler<S> {
    requests: S,
    limits: Limits,
    arriving: Gate,
    /// Longest wait for the next part of a document.
    patience: Duration,
    corpus: Option<CorpusName>,
    ids: HashSet<String>,
}

impl<S> Assembler<S>
where
    S: Stream<Item = Result<wire::IngestRequest, Status>> + Unpin,
{
    pub fn new(requests: S, limits: Limits, arriving: Gate, patience: Duration) -> Self {
        Self { requests, limits, arriving, patience, corpus: None, ids: HashSet::new() }
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
        let (mut room, mut refused) = (None, None);
        if continues {
            match self.make_room(request.text_bytes).await {
                Ok(made) => {
                    text.reserve_exact(made.bytes.saturating_sub(text.len()));
                    room = Some(made);
                }
                Err(error) => refused = Some(error),
            }
        }
        while continues {
            let part = match self.next_message().await? {
                wire::IngestRequest {
                    payload: Some(Payload::TextPart(part)),
                    continues: more,
                    ..
                } => {
                    continues = more;
                    part
                }
                _ => return Err(sequence("payload", "expected the text part that was announced")),
            };
            let most = room.as_ref().map_or(0, |room| room.bytes);
            if text.len() + part.len() <= most {
                text.extend_from_slice(&part);
                continue;
            }
            // The rest of a text that is refused is read and discarded, so that the stream can
            // continue.
            refused.get_or_insert_with(|| match request.text_bytes {
                0 => self.too_long(),
                bytes => Error::invalid("text_bytes", format!("expected {bytes} bytes, got more")),
            });
            (text, room) = (Vec::new(), None);
        }
        document.text = text.into();
        let id = document.id.clone();
        let document = match refused {
            Some(refused) => Err(refused),
            None => self.check_id(&id).and_then(|()| document_from_wire(document, &self.limits)),
        };
        Ok(Assembled { corpus, id, document, if_there, room })
    }

    /// Waits for room for a text that arrives in parts. `announced` is its length, or 0.
    async fn make_room(&self, announced: u64) -> Result<Room, Error> {
        let limit = self.limits.document_bytes;
        let bytes = match announced {
            0 => limit,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        if bytes > limit {
            return Err(self.too_long());
        }
        let permit = self.arriving.enter(bytes, Instant::now() + ROOM_PATIENCE).await?;
        Ok(Room { bytes, _permit: permit })
    }

    /// Returns the next message of a document that was begun.
    async fn next_message(&mut self) -> Result<wire::IngestRequest, Status> {
        let next = tokio::time::timeout(self.patience, self.requests.next()).await;
        let late = |_| to_status(&Error::deadline("waiting for the next part of a document"));
        let ended = || sequence("payload", "the stream ended in a document");
        next.map_err(late)?.ok_or_else(ended)?
    }

    fn too_long(&self) -> Error {
        let limit = self.limits.document_bytes;
        let problem = format!(
            "expected at most {limit} bytes; split the document, or have `gateway.max_document_bytes` raised"
        );
        Error::invalid("document.text", problem)
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
        Ok(wire::IngestRequest { corpus: "notes".to_owned(), payload, continues, text_bytes: 0 })
    }

    fn announce(id: &str, text: &str, text_bytes: u64) -> Result<wire::IngestRequest, Status> {
        Ok(wire::IngestRequest { text_bytes, ..begin(id, text, true)? })
    }

    fn part(text: &str, continues: bool) -> Result<wire::IngestRequest, Status> {
        let payload = Some(Payload::TextPart(text.to_owned().into()));
        Ok(wire::IngestRequest { corpus: String::new(), payload, continues, text_bytes: 0 })
    }

    async fn assemble(
        messages: Vec<Result<wire::IngestRequest, Status>>,
        document_bytes: usize,
    ) -> Vec<String> {
        assemble_with_room(futures::stream::iter(messages), document_bytes, &gate(1_000)).await
    }

    fn gate(bytes: u32) -> Gate {
        Gate::new("room", bytes, Duration::ZERO)
    }

    async fn assemble_with_room(
        messages: impl Stream<Item = Result<wire::IngestRequest, Status>> + Unpin,
        document_bytes: usize,
        room: &Gate,
    ) -> Vec<String> {
        let limits = Limits { document_bytes, ..Limits::default() };
        let patience = Duration::from_secs(60);
        let mut assembler = Assembler::new(messages, limits, room.clone(), patience);
        let mut seen = Vec::new();
        while let Some(next) = assembler.next().await {
            seen.push(match next {
                Ok(Assembled { document: Ok(document), .. }) => document.text,
                Ok(Assembled { document: Err(error), .. }) if error.is_retryable() => {
                    "refused for now".to_owned()
                }
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
    async fn a_text_is_as_long_as_announced_at_most_and_within_the_limit() {
        let messages = vec![
            announce("exact", "12345", 8),
            part("678", false),
            announce("longer", "12345", 8),
            part("6789", true),
            part("0", false),
            announce("beyond", "12345", 11),
            part("678901", false),
            begin("next", "x", false),
        ];
        let expected = ["12345678", "refused text_bytes", "refused document.text", "x"];
        assert_eq!(assemble(messages, 10).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn parts_are_not_read_without_room_and_room_is_given_back() {
        let gate = gate(10);
        let messages = || {
            let parts = [announce("a", "1234", 6), part("56", false), begin("b", "x", false)];
            futures::stream::iter(parts)
        };
        let other = gate.try_enter(5).unwrap();
        let mut read = messages();
        let limits = Limits::default();
        let mut waiting = Assembler::new(&mut read, limits, gate.clone(), Duration::from_secs(60));
        assert!(tokio::time::timeout(ROOM_PATIENCE / 2, waiting.next()).await.is_err());
        // It has read the beginning of the document and no more.
        assert_eq!(read.size_hint().0, 2);
        // After some time the document is refused, and what follows it is not.
        let seen = assemble_with_room(messages(), 10, &gate).await;
        assert_eq!(seen, ["refused for now", "x"]);
        drop(other);
        assert_eq!(assemble_with_room(messages(), 10, &gate).await, ["123456", "x"]);
        assert_eq!(gate.in_use(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_whose_parts_do_not_arrive_ends_the_stream_and_gives_its_room_back() {
        let gate = gate(10);
        let begun = futures::stream::iter([announce("a", "1234", 6), part("5", true)]);
        let silent = begun.chain(futures::stream::pending());
        let seen = assemble_with_room(silent, 10, &gate).await;
        assert_eq!(seen, ["broken DeadlineExceeded"]);
        assert_eq!(gate.in_use(), 0);
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
