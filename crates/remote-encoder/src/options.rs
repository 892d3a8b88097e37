//! What a remote encoder connects to.

use clew_core::EncoderIdentity;
use clew_runtime::peer::Reach;

use crate::RemoteEncoderConfig;

/// The gRPC service whose health tells whether a member takes work.
pub(crate) const SERVICE: &str = "clew.encoder.v1.EncoderService";

/// What to connect to.
#[derive(Clone, Debug)]
pub struct RemoteEncoderOptions {
    /// The members at first, as names and addresses.
    pub members: Vec<(String, String)>,
    /// The model that is worked with; `None`: the current one of the first member that answers.
    pub expected: Option<EncoderIdentity>,
    /// Section `remote_encoder`.
    pub config: RemoteEncoderConfig,
    /// How they are reached.
    pub peers: Reach,
}
