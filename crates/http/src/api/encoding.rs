//! Forms of messages: binary as on the wire, and JSON in the mapping that protobuf defines.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Deserializer, Serializer};

use crate::Failure;

/// Form of the messages of one request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Proto,
}

impl Encoding {
    /// Returns a message of type `of` that a client sent, as the wire has it.
    ///
    /// # Errors
    /// Returns the errors of [`to_wire`].
    pub(crate) fn read(self, of: &MessageDescriptor, message: Bytes) -> Result<Bytes, Failure> {
        match self {
            Self::Json => to_wire(of, &message),
            Self::Proto => Ok(message),
        }
    }

    /// Returns a message of type `of` from the wire, as the client takes it.
    ///
    /// # Errors
    /// Returns the errors of [`from_wire`].
    pub(crate) fn write(self, of: &MessageDescriptor, message: Bytes) -> Result<Bytes, Failure> {
        match self {
            Self::Json => from_wire(of, message),
            Self::Proto => Ok(message),
        }
    }
}

/// Returns a message of type `of`, given as JSON, as the wire has it.
///
/// # Errors
/// Returns `INVALID_ARGUMENT`, naming what is at fault and where, if the JSON is no such message:
/// also for an unknown field, and for JSON that is nested more deeply than any message.
fn to_wire(of: &MessageDescriptor, json: &[u8]) -> Result<Bytes, Failure> {
    // Of serde_json, a depth of 128 is the limit, before any memory is used for what is below.
    let mut deserializer = Deserializer::from_slice(json);
    let read = DynamicMessage::deserialize(of.clone(), &mut deserializer);
    let message = read.and_then(|message| deserializer.end().map(|()| message));
    match message {
        Ok(message) => Ok(message.encode_to_vec().into()),
        Err(error) => {
            let problem = format!("expected a `{}` as JSON: {error}", of.name());
            Err(Failure::invalid("", problem))
        }
    }
}

/// Returns a message of type `of`, given as the wire has it, as JSON on one line.
///
/// # Errors
/// Returns `INTERNAL` if the bytes are no such message.
fn from_wire(of: &MessageDescriptor, message: Bytes) -> Result<Bytes, Failure> {
    let broken = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, message = of.full_name(), "a response has no form in JSON");
        Failure::from(clew_core::Error::internal("the response has no form in JSON"))
    };
    let message = DynamicMessage::decode(of.clone(), message).map_err(|error| broken(&error))?;
    let mut serializer = Serializer::new(Vec::new());
    match message.serialize_with_options(&mut serializer, &SerializeOptions::new()) {
        Ok(()) => Ok(serializer.into_inner().into()),
        Err(error) => Err(broken(&error)),
    }
}

#[cfg(test)]
mod tests {
    use clew_proto::query::v1 as query;

    use super::super::methods::Methods;
    use super::*;

    fn search() -> MessageDescriptor {
        let methods = Methods::of_clients().unwrap();
        methods.get("/clew.query.v1.QueryService/Search").unwrap().input.clone()
    }

    #[test]
    fn both_spellings_of_a_field_are_read() {
        for name in ["documentIds", "document_ids"] {
            let json = format!(r#"{{"corpus":"c","k":3,"filter":{{"{name}":["a"]}}}}"#);
            let message = to_wire(&search(), json.as_bytes()).unwrap();
            let message = query::SearchRequest::decode(message).unwrap();
            assert_eq!((message.corpus.as_str(), message.k), ("c", Some(3)));
            assert_eq!(message.filter.unwrap().document_ids, ["a"]);
        }
    }

    #[test]
    fn a_message_is_the_same_after_its_way_through_json() {
        let json = br#"{"corpus":"c","query":"t","k":0}"#;
        let message = to_wire(&search(), json).unwrap();
        let back = from_wire(&search(), message.clone()).unwrap();
        assert_eq!(to_wire(&search(), &back).unwrap(), message);
    }

    #[test]
    fn what_is_no_message_is_refused_by_name() {
        let refused = |json: &[u8]| to_wire(&search(), json).unwrap_err().message;
        assert!(refused(br#"{"corpsu":"c"}"#).contains("corpsu"));
        assert!(refused(br#"{"corpus":1}"#).contains("line 1"));
        for bad in [&b""[..], b"[]", b"null x", b"{", b"{} {}", b"\xff", br#"{"k":-1}"#] {
            assert!(refused(bad).starts_with("expected a `SearchRequest` as JSON"), "{bad:?}");
        }
        for (open, close) in [("[", "]"), (r#"{"filter":"#, "}")] {
            let deep = open.repeat(10_000) + "1" + &close.repeat(10_000);
            refused(deep.as_bytes());
        }
    }
}
