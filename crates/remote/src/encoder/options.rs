//! Options of a remote encoder.

use clew_core::EncoderIdentity;
use clew_runtime::peer::Reach;

use super::RemoteEncoderConfig;

/// gRPC service whose health says whether a member takes work.
pub(crate) const SERVICE: &str = "clew.encoder.v1.EncoderService";

/// Members to connect to, and how.
#[derive(Clone, Debug)]
pub struct RemoteEncoderOptions {
    /// Initial members, as names and addresses.
    pub members: Vec<(String, String)>,
    /// Model to work with. `None` means the current model of the first member that answers.
    pub expected: Option<EncoderIdentity>,
    /// Section `remote_encoder`.
    pub config: RemoteEncoderConfig,
    /// Connection settings.
    pub peers: Reach,
}
