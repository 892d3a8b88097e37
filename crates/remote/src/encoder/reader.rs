//! Implementation of the trait `SpanReader` over readers on other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{Error, Limits, NoReader, PassagesRead, ReadPassage, SpanReader};
use clew_node::Node;
use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_runtime::deadline::{request, within};
use clew_runtime::peer::{Channel, Peer};
use clew_runtime::pool::Pool;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use tonic::Code;

use super::described::{BELIEVED, Described};
use super::options::SERVICE;
use crate::failed::failed;

/// Maximum number of calls under way on one encoder.
const CREDITS: u32 = 64;
/// Maximum time for the other encoders to say whether they have a reader, after one said so. An
/// encoder that loads its reader may take longer; it is asked again later.
const OTHERS_PATIENCE: Duration = Duration::from_secs(1);
/// Passages of one call: few enough that several encoders share a question, and enough for some
/// batches on each.
const PASSAGES_AT_ONCE: usize = 16;
/// Maximum length of a passage that is sent, in bytes. A reader reads about 16,000 tokens of it.
const PASSAGE_BYTES: usize = 128 << 10;
/// Maximum length of a heading that is sent, in bytes. A reader reads 32 tokens of it.
const HEADING_BYTES: usize = 1 << 10;

/// Client that reads on other nodes, with the passages of one question spread over several of them.
/// Encoders without a reader are left out.
pub struct RemoteReader {
    encoders: Pool,
    /// Encoders that have a reader.
    offering: Described<Offering>,
}

/// Encoders that have a reader.
#[derive(Clone)]
struct Offering {
    /// Name of the reader of one of them.
    model: String,
    /// Names of the encoders.
    members: Arc<BTreeSet<String>>,
}

impl RemoteReader {
    /// Returns one reader that stands for the readers of the cluster's encoders. They are asked
    /// whether they have one only when it is needed.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node) -> Result<Self, Error> {
        Ok(Self::new(node.pool(Some(Role::Encoder), "readers", SERVICE, CREDITS).await?))
    }

    /// Returns the reader that the roles of `node` share ([`clew_node::SharedSeams`]).
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub async fn shared(node: &Node) -> Result<Arc<dyn SpanReader>, Error> {
        let connect = async { Ok(Arc::new(Self::of(node).await?) as Arc<dyn SpanReader>) };
        node.seams().reader.or_connect(connect).await
    }

    /// Creates a client of the readers of `encoders`.
    pub fn new(encoders: Pool) -> Self {
        // An encoder that gets a reader should be found soon, so absence is cached for less time
        // than presence.
        Self { encoders, offering: Described::new(NoReader::REASON, BELIEVED / 12) }
    }

    /// Returns the encoders that have a reader; `None` if none has.
    async fn offering(&self, deadline: Instant) -> Result<Option<Offering>, Error> {
        let asking = async {
            let known = self.offering.get(deadline, |patience| self.ask_all(patience)).await?;
            let Some(offering) = &known else { return Ok(None) };
            if self.encoders.members().iter().any(|peer| offering.members.contains(peer.name())) {
                return Ok(known);
            }
            // All of them have left.
            self.offering.forget().await;
            self.offering.get(deadline, |patience| self.ask_all(patience)).await
        };
        within(deadline, "asking encoders for their reader", asking).await
    }

    /// Asks every serving encoder whether it has a reader.
    async fn ask_all(&self, deadline: Instant) -> Result<Offering, Error> {
        let serving = self.encoders.serving(deadline).await?;
        let asking = serving.iter().map(|peer| async move {
            let is_asked = |other: &Peer| other.name() == peer.name();
            let describe = |channel| describe(channel, deadline);
            (peer.name(), self.encoders.call_among(1, deadline, is_asked, describe).await)
        });
        let mut asking: FuturesUnordered<_> = asking.collect();
        let (mut model, mut members, mut refusal) = (None, BTreeSet::new(), None);
        let mut until = deadline;
        while let Ok(Some((name, answer))) =
            tokio::time::timeout_at(until.into(), asking.next()).await
        {
            match answer {
                Ok(name_of_model) => {
                    if model.is_none() {
                        until = deadline.min(Instant::now() + OTHERS_PATIENCE);
                    }
                    model.get_or_insert(name_of_model);
                    members.insert(name.to_owned());
                }
                // That there is none counts for more than that an encoder does not answer.
                Err(error) if refusal.is_none() || error.reason() == NoReader::REASON => {
                    refusal = Some(error);
                }
                Err(_) => {}
            }
        }
        match model {
            Some(model) => Ok(Offering { model, members: Arc::new(members) }),
            None => Err(refusal.unwrap_or_else(|| Error::deadline("asking encoders"))),
        }
    }

    async fn read_part(
        &self,
        asked: &wire::ReadSpansRequest,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let read = match self.read_where_offered(asked, deadline).await {
            // The encoder has no reader any more; others may have one.
            Err(error) if error.reason() == NoReader::REASON => {
                self.offering.forget().await;
                self.read_where_offered(asked, deadline).await?
            }
            read => read?,
        };
        convert::read_from_wire(read, asked)
    }

    async fn read_where_offered(
        &self,
        asked: &wire::ReadSpansRequest,
        deadline: Instant,
    ) -> Result<wire::ReadSpansResponse, Error> {
        let Offering { members, .. } =
            self.offering(deadline).await?.ok_or_else(NoReader::refusal)?;
        let offers = |peer: &Peer| members.contains(peer.name());
        let reading = self.encoders.call_among(1, deadline, offers, |channel| {
            let asked = asked.clone();
            async move {
                let mut client = EncoderServiceClient::new(channel);
                client.read_spans(request(asked, deadline)).await.map_err(failed)
            }
        });
        Ok(reading.await?.into_inner())
    }
}

#[async_trait]
impl SpanReader for RemoteReader {
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        Ok(self.offering(deadline).await?.map(|offering| offering.model))
    }

    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let parts = parts(question, passages);
        let reading = parts.iter().map(|part| self.read_part(part, deadline));
        let mut all = PassagesRead::default();
        for part in try_join_all(reading).await? {
            all.passages.extend(part.passages);
            all.tokens += part.tokens;
        }
        Ok(all)
    }
}

/// Splits passages into the parts of calls, and cuts each text to its maximum length.
fn parts(question: &str, passages: Vec<ReadPassage>) -> Vec<wire::ReadSpansRequest> {
    let question = beginning(question, Limits::default().query_bytes);
    let mut parts: Vec<Vec<ReadPassage>> = Vec::new();
    for mut passage in passages {
        passage.text.truncate(beginning(&passage.text, PASSAGE_BYTES).len());
        passage.heading.truncate(beginning(&passage.heading, HEADING_BYTES).len());
        match parts.last_mut().filter(|part| part.len() < PASSAGES_AT_ONCE) {
            Some(part) => part.push(passage),
            None => parts.push(vec![passage]),
        }
    }
    parts.into_iter().map(|part| convert::reading_to_wire(question, part)).collect()
}

/// Returns as much of the beginning of `text` as fits into `bytes`, in whole characters.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// All passages of a call together are below the limit of a message.
const _: () = assert!(PASSAGES_AT_ONCE * (PASSAGE_BYTES + HEADING_BYTES) <= convert::READ_BYTES);

async fn describe(channel: Channel, deadline: Instant) -> Result<String, Error> {
    let mut client = EncoderServiceClient::new(channel);
    let described = client.describe_reader(request(wire::DescribeReaderRequest {}, deadline));
    match described.await {
        Ok(described) => Ok(described.into_inner().model),
        // An encoder of an earlier release.
        Err(status) if status.code() == Code::Unimplemented => Err(NoReader::refusal()),
        Err(status) => Err(failed(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_passage_once_in_order_and_fit_into_messages() {
        let long = "é".repeat(PASSAGE_BYTES);
        let passage =
            |i| ReadPassage { heading: format!("{i} {long}"), text: format!("{i} {long}") };
        let parts = parts(&long, (0..35).map(passage).collect());
        assert_eq!(parts.iter().map(|part| part.passages.len()).collect::<Vec<_>>(), [16, 16, 3]);
        let mut read = Vec::new();
        for part in parts {
            let (question, passages) =
                convert::reading_from_wire(part, &Limits::default()).unwrap();
            assert!(long.starts_with(&question));
            read.extend(passages);
        }
        for (i, passage) in read.iter().enumerate() {
            let begins = |text: &str| text.starts_with(&format!("{i} é"));
            assert!(begins(&passage.text) && begins(&passage.heading));
        }
        assert_eq!(read.len(), 35);
    }
}
