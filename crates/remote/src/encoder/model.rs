//! Models that members offer, as they describe them.

use std::time::{Duration, Instant};

use clew_core::{EncoderIdentity, Error};
use clew_proto::convert::encoder::{TEXT_BYTES, identity_from_wire};
use clew_proto::corpus::v1::EncoderIdentity as WireIdentity;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::{DescribeRequest, DescribeResponse};
use clew_runtime::deadline::within;
use clew_runtime::peer::Link;
use clew_tokenizer::TokenCounter;
use tonic::Streaming;

use crate::failed::failed;

/// Maximum size of a `tokenizer.json` in bytes.
const TOKENIZER_BYTES: usize = 64 << 20;
/// Maximum size of a text that is sent without being cut, in bytes.
const SHORT_TEXT_BYTES: usize = 16 * 1024;
/// Maximum time for a member to describe itself.
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(10);

/// Description of a model by a member.
pub(crate) struct Description {
    pub identity: EncoderIdentity,
    pub tokenizer_json: Vec<u8>,
    /// All models that the member offers, its current one first.
    pub offered: Vec<EncoderIdentity>,
}

/// Asks a member to describe the model `wanted`, or its current one if that is `None`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the description is not valid,
/// [`clew_core::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if the member does not
/// offer the model, and the errors of the connection.
pub(crate) async fn describe(
    link: &Link,
    wanted: Option<&EncoderIdentity>,
) -> Result<Description, Error> {
    let deadline = Instant::now() + DESCRIBE_PATIENCE;
    let describing = link.run(try_describe(link, wanted));
    within(deadline, "an encoder describes a model", describing).await
}

/// Asks a member which models it offers, its current one first.
///
/// # Errors
/// Returns the same errors as [`describe`].
pub(crate) async fn offered(link: &Link) -> Result<Vec<EncoderIdentity>, Error> {
    let deadline = Instant::now() + DESCRIBE_PATIENCE;
    let asking = link.run(async {
        // The rest of the stream, the tokenizer, is not read.
        let first = ask(link, None).await?.message().await.map_err(failed)?;
        let DescribeResponse { identity, offered, .. } = first.unwrap_or_default();
        offered_from_wire(identity_from_wire(identity)?, offered)
    });
    within(deadline, "an encoder tells what it offers", asking).await
}

async fn ask(
    link: &Link,
    wanted: Option<&EncoderIdentity>,
) -> Result<Streaming<DescribeResponse>, Error> {
    let encoder = wanted.map(EncoderIdentity::fingerprint).unwrap_or_default();
    let mut client = EncoderServiceClient::new(link.channel());
    Ok(client.describe(DescribeRequest { encoder }).await.map_err(failed)?.into_inner())
}

fn offered_from_wire(
    described: EncoderIdentity,
    offered: Vec<WireIdentity>,
) -> Result<Vec<EncoderIdentity>, Error> {
    if offered.is_empty() {
        // The member is of a release that does not list its models yet.
        return Ok(vec![described]);
    }
    offered.into_iter().map(|identity| identity_from_wire(Some(identity))).collect()
}

async fn try_describe(link: &Link, wanted: Option<&EncoderIdentity>) -> Result<Description, Error> {
    let mut parts = ask(link, wanted).await?;
    let (mut identity, mut offered, mut tokenizer_json) = (None, Vec::new(), Vec::new());
    while let Some(part) = parts.message().await.map_err(failed)? {
        identity = identity.or(part.identity);
        offered.extend(part.offered);
        if tokenizer_json.len() + part.tokenizer_part.len() > TOKENIZER_BYTES {
            let problem = format!("expected at most {TOKENIZER_BYTES} bytes, got more");
            return Err(Error::invalid("tokenizer", problem));
        }
        tokenizer_json.extend_from_slice(&part.tokenizer_part);
    }
    let identity = identity_from_wire(identity)?;
    let offered = offered_from_wire(identity.clone(), offered)?;
    Ok(Description { identity, tokenizer_json, offered })
}

/// Model in use.
pub(crate) struct Model {
    pub identity: EncoderIdentity,
    pub tokenizer: TokenCounter,
}

impl Model {
    /// Reads the tokenizer. Blocks for a fraction of a second.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the tokenizer cannot be used.
    pub(crate) fn try_new(description: Description) -> Result<Self, Error> {
        let Description { identity, tokenizer_json, offered: _ } = description;
        let tokenizer = TokenCounter::try_new("tokenizer.json", &tokenizer_json)?;
        Ok(Self { identity, tokenizer })
    }

    /// Returns the part of `text` that the model reads, which is all that needs to be sent. If a
    /// text has no white space for a mebibyte, that mebibyte is the part.
    pub(crate) fn cut(&self, mut text: String) -> String {
        if text.len() > SHORT_TEXT_BYTES {
            // First to the maximum that is sent, which also bounds the time.
            text.truncate(text.floor_char_boundary(TEXT_BYTES));
            let read = self.tokenizer.read_bytes(&text, self.identity.max_tokens as usize);
            text.truncate(read);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_not_read() {
        let model = Model::try_new(Description {
            identity: EncoderIdentity {
                model: "m".to_owned(),
                revision: "r".to_owned(),
                dimension: 64,
                max_tokens: 64,
            },
            tokenizer_json: clew_testkit::tiny_tokenizer().to_string().into_bytes(),
            offered: Vec::new(),
        })
        .unwrap();
        for long in ["the old house ".repeat(100_000), "é".repeat(20_000)] {
            let cut = model.cut(long.clone());
            assert!(cut.len() <= TEXT_BYTES && long.starts_with(&cut));
            if long.contains(' ') {
                let (cut, long) = (model.tokenizer.spans(&cut), model.tokenizer.spans(&long));
                assert_eq!(cut[..62], long[..62]);
            }
        }
        assert_eq!(model.cut("short".to_owned()), "short");
    }
}
