//! The seam `Reasoner` over generators elsewhere.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, Evidence, Reading, Reasoner};
use clew_proto::convert::generator as convert;
use clew_proto::from_status;
use clew_proto::generator::v1::generator_service_client::GeneratorServiceClient;
use clew_proto::generator::v1::read_response::Event;
use clew_runtime::deadline::request;
use clew_runtime::pool::Pool;
use futures::TryStreamExt;

/// Has evidence read by the least busy generator of a pool.
pub struct RemoteReasoner {
    generators: Pool,
}

impl RemoteReasoner {
    /// A reasoner over `generators`.
    pub fn new(generators: Pool) -> Self {
        Self { generators }
    }
}

#[async_trait]
impl Reasoner for RemoteReasoner {
    async fn read(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reading, Error> {
        let message = convert::read_to_wire(question, evidence);
        self.generators
            .call(1, deadline, |channel| {
                let request = request(message.clone(), deadline);
                async move {
                    let mut client = GeneratorServiceClient::new(channel);
                    let failed = |status| from_status(&status).with_source(status);
                    let mut events = client.read(request).await.map_err(failed)?.into_inner();
                    while let Some(response) = events.try_next().await.map_err(failed)? {
                        match response.event {
                            Some(Event::Reading(reading)) => {
                                return convert::reading_from_wire(reading);
                            }
                            Some(Event::TextDelta(_)) | None => {}
                        }
                    }
                    Err(Error::internal("a generator ended without a reading"))
                }
            })
            .await
    }
}
