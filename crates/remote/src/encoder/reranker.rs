//! Implementation of the trait `Reranker` over rerankers on other nodes.

use std::time::Instant;

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{Error, Limits, Reranker, Scored};
use clew_node::Node;
use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_runtime::deadline::{request, within};
use clew_runtime::peer::Channel;
use clew_runtime::pool::Pool;
use futures::future::try_join_all;

use super::described::{BELIEVED, Described};
use super::options::SERVICE;
use crate::failed::failed;

/// Maximum number of calls under way on one encoder.
const CREDITS: u32 = 64;
/// Passages of one call: few enough that several encoders share a question, and enough for a batch
/// on each.
const PASSAGES_AT_ONCE: usize = 32;
/// Maximum length of a passage that is sent, in bytes. No reranker reads more.
const PASSAGE_BYTES: usize = 64 << 10;

/// Client that reranks on other nodes, with the passages of one question spread over several of
/// them.
pub struct RemoteReranker {
    encoders: Pool,
    /// Reranker that the encoders have.
    described: Described<String>,
}

impl RemoteReranker {
    /// Returns one reranker that stands for the rerankers of the cluster's encoders. They are asked
    /// which model they have, if any, only when it is needed.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node) -> Result<Self, Error> {
        Ok(Self::new(node.pool(Some(Role::Encoder), "rerankers", SERVICE, CREDITS).await?))
    }

    /// Creates a client of the rerankers of `encoders`, which all have the same reranker or none.
    pub fn new(encoders: Pool) -> Self {
        // A reranker that is newly configured should be found soon, so absence is cached for less
        // time than presence.
        Self { encoders, described: Described::new("NO_RERANKER", BELIEVED / 12) }
    }

    async fn score_part(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let expected = passages.len();
        let asked = wire::RerankRequest { query: query.to_owned(), passages };
        let scored = self.encoders.call(1, deadline, |channel| {
            let asked = asked.clone();
            async move {
                let mut client = EncoderServiceClient::new(channel);
                client.rerank(request(asked, deadline)).await.map_err(failed)
            }
        });
        convert::scored_from_wire(scored.await?.into_inner(), expected)
    }
}

#[async_trait]
impl Reranker for RemoteReranker {
    async fn reranker_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        let asking = self.described.get(deadline, |patience| {
            self.encoders.call(1, patience, move |channel| describe(channel, patience))
        });
        within(deadline, "asking encoders for their reranker", asking).await
    }

    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let parts = parts(passages).into_iter();
        let scored = parts.map(|part| self.score_part(query, part, deadline));
        let mut all = Scored::default();
        for part in try_join_all(scored).await? {
            all.scores.extend(part.scores);
            all.tokens += part.tokens;
        }
        Ok(all)
    }
}

/// Splits passages into the parts of calls, and cuts each passage to the maximum length.
fn parts(passages: Vec<String>) -> Vec<Vec<String>> {
    let most = PASSAGES_AT_ONCE.min(Limits::default().reranked);
    let mut parts: Vec<Vec<String>> = Vec::new();
    for mut passage in passages {
        passage.truncate(passage.floor_char_boundary(PASSAGE_BYTES));
        match parts.last_mut().filter(|part| part.len() < most) {
            Some(part) => part.push(passage),
            None => parts.push(vec![passage]),
        }
    }
    parts
}

/// All passages of a call together are below the limit of a message.
const _: () = assert!(PASSAGES_AT_ONCE * PASSAGE_BYTES <= convert::RERANKED_BYTES);

async fn describe(channel: Channel, deadline: Instant) -> Result<String, Error> {
    let mut client = EncoderServiceClient::new(channel);
    let described = client.describe_reranker(request(wire::DescribeRerankerRequest {}, deadline));
    Ok(described.await.map_err(failed)?.into_inner().model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_passage_once_in_order_and_fit_into_messages() {
        let long = "é".repeat(PASSAGE_BYTES);
        let passages: Vec<String> = (0..70).map(|i| format!("{i} {long}")).collect();
        let parts = parts(passages);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 6]);
        for (i, passage) in parts.iter().flatten().enumerate() {
            assert!(passage.starts_with(&format!("{i} ")) && passage.len() <= PASSAGE_BYTES);
        }
        for part in &parts {
            assert!(part.iter().map(String::len).sum::<usize>() <= convert::RERANKED_BYTES);
        }
    }
}
