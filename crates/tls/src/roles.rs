//! The roles that a certificate names.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The name that the cluster's authority certifies nodes for, and nobody else.
pub const NODE_NAME: &str = "node.clew.internal";

/// The roles that the certificate of a node names, each as `ROLE.node.clew.internal`. Cheap to clone.
///
/// One that names none is of before there were such names. It is taken for one of every role, so that certificates can
/// be renewed and nodes upgraded one by one; the next release takes it for one of none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRoles(Arc<BTreeSet<String>>);

impl NodeRoles {
    /// Those among the names of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        // What cannot be read proves nothing, and was not verified before either.
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Self::default() };
        Self::named(certificate.valid_dns_names().filter_map(|name| {
            let (role, rest) = name.split_once('.')?;
            rest.eq_ignore_ascii_case(NODE_NAME).then(|| role.to_ascii_lowercase())
        }))
    }

    /// These, by their names.
    pub fn named(roles: impl IntoIterator<Item: Into<String>>) -> Self {
        Self(Arc::new(roles.into_iter().map(Into::into).collect()))
    }

    /// Whether the certificate is of before roles were named.
    pub fn are_unnamed(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether its node may act as `role`.
    pub fn have(&self, role: &str) -> bool {
        self.are_unnamed() || self.0.contains(role)
    }
}

impl fmt::Display for NodeRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&names.join(", "))
    }
}
