//! Responses that are streams: as lines, as events, and as Connect's clients read them.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use clew_core::Error;
use serde::Serialize;
use tokio::time::Instant;
use tonic::Streaming;

use super::encoding::Encoding;
use super::methods::Method;
use crate::Failure;
use crate::errors::FailureBody;

/// Silence after which a stream of events sends a comment, so that no proxy takes it for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Tells proxies not to hold back what comes.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Length, in bytes, of what comes before each message of Connect: flags, and the message's length.
const PREFIX_BYTES: usize = 5;
/// Flag of the last message.
const END: u8 = 0b10;

/// How messages follow each other in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A line of JSON for each message. The last one of a stream that fails is `{"error":…}`.
    Lines,
    /// A server-sent event for each message, and one named `end` or `error` at the end.
    Events,
    /// Messages with their lengths, and one at the end that has the failure, if there is one.
    Connect(Encoding),
}

/// A failure within a stream.
#[derive(Serialize)]
struct Ended<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody<'a>>,
}

impl Framing {
    fn encoding(self) -> Encoding {
        match self {
            Self::Lines | Self::Events => Encoding::Json,
            Self::Connect(encoding) => encoding,
        }
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Lines => "application/x-ndjson",
            Self::Events => "text/event-stream",
            Self::Connect(Encoding::Json) => "application/connect+json",
            Self::Connect(Encoding::Proto) => "application/connect+proto",
        })
    }

    /// Returns the bytes of one message.
    fn message(self, message: &[u8]) -> Bytes {
        match self {
            Self::Lines => [message, b"\n"].concat().into(),
            Self::Events => [b"data: ", message, b"\n\n"].concat().into(),
            Self::Connect(_) => prefixed(0, message),
        }
    }

    /// Returns the bytes at the end of a stream.
    fn end(self, failure: Option<&Failure>) -> Option<Bytes> {
        let error = failure.map(Failure::body);
        // Serialising texts and lists of them cannot fail.
        let json = |value: &Ended<'_>| serde_json::to_vec(value).unwrap_or_default();
        match (self, error) {
            (Self::Lines, None) => None,
            (Self::Lines, error) => Some([&json(&Ended { error })[..], b"\n"].concat().into()),
            (Self::Events, None) => Some(Bytes::from_static(b"event: end\ndata: {}\n\n")),
            (Self::Events, Some(error)) => {
                let error = serde_json::to_vec(&error).unwrap_or_default();
                Some([b"event: error\ndata: ", &error[..], b"\n\n"].concat().into())
            }
            (Self::Connect(_), error) => Some(prefixed(END, &json(&Ended { error }))),
        }
    }

    fn response(self, body: Body) -> Response {
        ([(CONTENT_TYPE, self.content_type()), UNBUFFERED], body).into_response()
    }
}

fn prefixed(flags: u8, message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(flags);
    // No message is longer than what tonic decodes.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Returns the one message in the body of a request of Connect.
///
/// # Errors
/// Returns `INVALID_ARGUMENT` if there is no such message, or more than one.
pub(crate) fn unframed(mut body: Bytes) -> Result<Bytes, Failure> {
    let refused = |problem| Err(Failure::invalid("", problem));
    let Some((prefix, _)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return refused("expected a message with its flags and length");
    };
    let [flags, length @ ..] = *prefix;
    if flags != 0 {
        return refused("expected a message that is not compressed");
    }
    let message = body.split_off(PREFIX_BYTES);
    match message.len() == u32::from_be_bytes(length) as usize {
        true => Ok(message),
        false => refused("expected one message of the length that it says"),
    }
}

/// Returns a response that ends with a failure before it began.
pub(crate) fn refuse(failure: &Failure, framing: Framing) -> Response {
    framing.response(framing.end(Some(failure)).map_or_else(Body::empty, Body::from))
}

/// Returns a response that has the messages as they come, and fails if they take longer than
/// `patience`.
pub(crate) fn respond(
    messages: Streaming<Bytes>,
    framing: Framing,
    method: &Method,
    patience: Option<Duration>,
) -> Response {
    let output = method.output.clone();
    let encode = move |message| framing.encoding().write(&output, message);
    let deadline = patience.map(|patience| Instant::now() + patience);
    let state = Some((messages, encode));
    let parts = futures::stream::unfold(state, move |state| async move {
        let (mut messages, encode) = state?;
        let next = tokio::select! {
            next = messages.message() => Some(next.map_err(Failure::from)),
            () = passed(deadline) => Some(Err(Error::deadline("the stream was read").into())),
            () = tokio::time::sleep(HEARTBEAT), if framing == Framing::Events => None,
        };
        let Some(next) = next else {
            return Some((Bytes::from_static(b":\n\n"), Some((messages, encode))));
        };
        let encoded = next.and_then(|next| next.map(&encode).transpose());
        match encoded {
            Ok(Some(message)) => Some((framing.message(&message), Some((messages, encode)))),
            Ok(None) => framing.end(None).map(|end| (end, None)),
            Err(failure) => framing.end(Some(&failure)).map(|end| (end, None)),
        }
    });
    let parts = futures::StreamExt::map(parts, Ok::<_, Infallible>);
    framing.response(Body::from_stream(parts))
}

/// Waits for a deadline, or for ever.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_connect_is_read_back() {
        let framed = Framing::Connect(Encoding::Json).message(b"{}");
        assert_eq!(&framed[..], b"\0\0\0\0\x02{}");
        assert_eq!(unframed(framed.clone()).unwrap(), "{}");
        let twice = [&framed[..], &framed].concat();
        let compressed = [&[1], &framed[1..]].concat();
        for bad in [&framed[..6], b"", b"\0\0", b"\0\0\0\0\x03{}", &twice, &compressed] {
            assert!(unframed(Bytes::copy_from_slice(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_says_how_it_ended() {
        let failure = Failure::from(Error::not_found("corpus", "x"));
        let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        assert_eq!(Framing::Lines.end(None), None);
        assert!(
            text(Framing::Lines.end(Some(&failure))).starts_with(r#"{"error":{"code":"not_found""#)
        );
        assert_eq!(text(Framing::Events.end(None)), "event: end\ndata: {}\n\n");
        let event = text(Framing::Events.end(Some(&failure)));
        assert!(event.starts_with("event: error\ndata: {\"code\":\"not_found\""), "{event}");
        let connect = Framing::Connect(Encoding::Json);
        assert_eq!(&connect.end(None).unwrap()[..], b"\x02\0\0\0\x02{}");
        assert_eq!(connect.end(Some(&failure)).unwrap()[0], END);
    }
}
