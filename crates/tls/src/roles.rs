//! Roles that certificates name.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Name that the cluster's authority certifies nodes for, and nobody else.
pub const NODE_NAME: &str = "node.clew.internal";

/// The roles that a node's certificate names, each as `ROLE.node.clew.internal`. Cheap to clone.
///
/// A certificate without such names was issued before roles were named. It counts as having every
/// role, so that certificates can be renewed and nodes upgraded one by one. The next release will
/// treat it as having none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRoles(Arc<BTreeSet<String>>);

impl NodeRoles {
    /// Returns the roles among the names of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        // An unreadable certificate proves nothing, and verification has refused it before.
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Self::default() };
        Self::named(certificate.valid_dns_names().filter_map(|name| {
            let (role, rest) = name.split_once('.')?;
            rest.eq_ignore_ascii_case(NODE_NAME).then(|| role.to_ascii_lowercase())
        }))
    }

    /// Creates the set of these roles.
    pub fn named(roles: impl IntoIterator<Item: Into<String>>) -> Self {
        Self(Arc::new(roles.into_iter().map(Into::into).collect()))
    }

    /// Returns whether the certificate was issued before roles were named.
    pub fn are_unnamed(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the node may act as `role`.
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
