//! Which model the members run, as they describe it.

use std::time::{Duration, Instant};

use clew_core::{EncoderIdentity, Error, ErrorKind};
use clew_proto::convert::encoder::{TEXT_BYTES, identity_from_wire};
use clew_proto::encoder::v1::DescribeRequest;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::from_status;
use clew_runtime::deadline::within;
use clew_runtime::peer::Link;
use clew_tokenizer::EncoderTokenizer;

/// Largest `tokenizer.json` that is taken.
const TOKENIZER_BYTES: usize = 64 << 20;
/// Texts up to this size are sent as they are.
const SHORT_TEXT_BYTES: usize = 16 * 1024;
/// How long a member may take to describe itself.
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(10);

/// What a member says of itself.
pub(crate) struct Description {
    pub identity: EncoderIdentity,
    pub tokenizer_json: Vec<u8>,
}

/// Asks a member.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a description that is none; those of the connection.
pub(crate) async fn describe(link: &Link) -> Result<Description, Error> {
    let deadline = Instant::now() + DESCRIBE_PATIENCE;
    within(deadline, "an encoder describes itself", link.run(try_describe(link))).await
}

async fn try_describe(link: &Link) -> Result<Description, Error> {
    let failed = |status| from_status(&status).with_source(status);
    let mut client = EncoderServiceClient::new(link.channel());
    let mut parts = client.describe(DescribeRequest {}).await.map_err(failed)?.into_inner();
    let (mut identity, mut tokenizer_json) = (None, Vec::new());
    while let Some(part) = parts.message().await.map_err(failed)? {
        identity = identity.or(part.identity);
        if tokenizer_json.len() + part.tokenizer_part.len() > TOKENIZER_BYTES {
            let problem = format!("expected at most {TOKENIZER_BYTES} bytes, got more");
            return Err(Error::invalid("tokenizer", problem));
        }
        tokenizer_json.extend_from_slice(&part.tokenizer_part);
    }
    Ok(Description { identity: identity_from_wire(identity)?, tokenizer_json })
}

/// Refuses a member that runs another model.
///
/// # Errors
/// [`ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH`.
pub(crate) fn check_same(expected: &EncoderIdentity, got: &EncoderIdentity) -> Result<(), Error> {
    if expected == got {
        return Ok(());
    }
    let name = |it: &EncoderIdentity| format!("`{}` revision {}", it.model, it.revision);
    let problem = format!(
        "expected an encoder with the model {}, got {}; give all encoders of a cluster the same \
         model folder",
        name(expected),
        name(got)
    );
    Err(Error::new(ErrorKind::WrongState, "ENCODER_MISMATCH", problem))
}

/// The model that all members share.
pub(crate) struct Model {
    pub identity: EncoderIdentity,
    pub tokenizer: EncoderTokenizer,
}

impl Model {
    /// Reads the tokenizer; blocks for a fraction of a second.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for one that cannot be used.
    pub(crate) fn try_new(description: Description) -> Result<Self, Error> {
        let Description { identity, tokenizer_json } = description;
        let tokenizer = EncoderTokenizer::try_new("tokenizer.json", &tokenizer_json)?;
        Ok(Self { identity, tokenizer })
    }

    /// The part of `text` that the model reads, which is all that needs to be sent. Of a text without
    /// any white space for a mebibyte, that mebibyte.
    pub(crate) fn cut(&self, mut text: String) -> String {
        if text.len() > SHORT_TEXT_BYTES {
            // First to what is sent at most, which bounds the time as well.
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
        })
        .unwrap();
        for long in ["the old house ".repeat(100_000), "é".repeat(20_000)] {
            let cut = model.cut(long.clone());
            assert!(cut.len() <= TEXT_BYTES && long.starts_with(&cut));
            if long.contains(' ') {
                assert_eq!(model.tokenizer.encode(&cut, 64), model.tokenizer.encode(&long, 64));
            }
        }
        assert_eq!(model.cut("short".to_owned()), "short");
        let other = EncoderIdentity { revision: "s".to_owned(), ..model.identity.clone() };
        assert_eq!(check_same(&model.identity, &other).unwrap_err().reason(), "ENCODER_MISMATCH");
    }
}
