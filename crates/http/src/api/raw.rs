//! Calls whose messages are bytes that somebody else encodes and decodes.

use bytes::{Buf, BufMut, Bytes};
use clew_client::Services;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status, Streaming};

use super::methods::Method;
use crate::Failure;

/// Maximum size in bytes of a response's message. The largest are parts of graphs.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Makes a call that is answered with one message.
pub(crate) async fn unary(
    services: &Services,
    method: &Method,
    request: Request<Bytes>,
) -> Result<Bytes, Failure> {
    let mut grpc = ready(services).await?;
    let answered = grpc.unary(request, method.path.clone(), Raw).await;
    Ok(answered?.into_inner())
}

/// Makes a call that is answered with a stream of messages.
pub(crate) async fn stream(
    services: &Services,
    method: &Method,
    request: Request<Bytes>,
) -> Result<Streaming<Bytes>, Failure> {
    let mut grpc = ready(services).await?;
    let answered = grpc.server_streaming(request, method.path.clone(), Raw).await;
    Ok(answered?.into_inner())
}

async fn ready(services: &Services) -> Result<Grpc<Services>, Failure> {
    let mut grpc = Grpc::new(services.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    match grpc.ready().await {
        Ok(()) => Ok(grpc),
        Err(error) => Err(Status::from_error(error).into()),
    }
}

/// The codec that leaves messages as they are.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
