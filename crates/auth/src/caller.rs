//! Who calls.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use clew_cluster::Quotas;
use clew_core::{Access, CorpusName, Error, ErrorKind, Owner, TenantName};
use serde::{Deserialize, Serialize};
use tonic::Request;

use crate::tenant::TenantEntry;

/// What a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Searching, asking, and seeing what is stored.
    Read,
    /// Bringing documents and turns, and forgetting them.
    Write,
    /// Making and deleting corpora.
    Admin,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join("`, `");
            Error::invalid("scope", format!("expected one of `{names}`, got `{name}`"))
        })
    }
}

/// Several scopes.
pub type Scopes = BTreeSet<Scope>;

/// Who calls, as the guard found out. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    /// Name of his key, for logs.
    key: String,
    tenant: Option<TenantName>,
    access: Access,
    quota: TenantEntry,
    quotas: Quotas,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller({}, {:?})", self.0.key, self.0.tenant)
    }
}

impl Caller {
    /// Whoever calls a server that asks nobody for a key, or is a node of the cluster: he may do everything.
    pub fn operator(key: &str) -> Self {
        Self(Arc::new(Inner {
            key: key.to_owned(),
            tenant: None,
            access: Access::all(),
            quota: TenantEntry::default(),
            quotas: Quotas::local(),
        }))
    }

    pub(crate) fn new(
        key: &str,
        tenant: Option<TenantName>,
        access: Access,
        quota: TenantEntry,
        quotas: Quotas,
    ) -> Self {
        Self(Arc::new(Inner { key: key.to_owned(), tenant, access, quota, quotas }))
    }

    /// Who sent a request.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if no guard has seen it: then nobody knows, and it is refused.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Error> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| Error::internal("a request came past the guard"))
    }

    /// Name of his key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Whose corpora he reaches; `None`: those of all tenants and the operator's own, by their full names.
    pub fn tenant(&self) -> Option<&TenantName> {
        self.0.tenant.as_ref()
    }

    /// Whose account his requests are on.
    pub fn owner(&self) -> Owner {
        Owner::of(self.tenant().map(TenantName::as_str))
    }

    /// The access labels he holds.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// The full name of the corpus that he calls `name`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if a tenant names another's.
    pub fn corpus(&self, name: &CorpusName) -> Result<CorpusName, Error> {
        match &self.0.tenant {
            Some(tenant) => CorpusName::of_tenant(tenant, name),
            None => Ok(name.clone()),
        }
    }

    /// What he calls a corpus.
    pub fn name_of<'a>(&self, corpus: &'a CorpusName) -> &'a str {
        match self.0.tenant {
            Some(_) => corpus.within_tenant(),
            None => corpus.as_str(),
        }
    }

    /// Takes a request out of the tenant's quota.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] with the time to wait.
    pub async fn take_request(&self) -> Result<(), Error> {
        self.take("requests", 1.0, self.0.quota.requests_per_second).await
    }

    /// Takes bytes of text that he brings out of the tenant's quota.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] with the time to wait.
    pub async fn take_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.take("bytes", bytes as f64, self.0.quota.bytes_per_second).await
    }

    /// Refuses if the tenant has used up his tokens.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] with the time to wait.
    pub async fn has_tokens(&self) -> Result<(), Error> {
        self.take("tokens", 0.0, self.0.quota.tokens_per_second).await
    }

    /// Tells how many tokens were read and written for him. What it took is known only afterwards, so that the
    /// next request waits for it.
    pub(crate) async fn used_tokens(&self, tokens: u64) {
        if let (Some(tenant), Some(rate)) = (&self.0.tenant, self.0.quota.tokens_per_second) {
            let name = format!("{tenant}:tokens");
            self.0.quotas.charge(&name, tokens as f64, self.0.quota.rate(rate)).await;
        }
    }

    async fn take(&self, what: &str, units: f64, per_second: Option<f64>) -> Result<(), Error> {
        let (Some(tenant), Some(per_second)) = (&self.0.tenant, per_second) else { return Ok(()) };
        let rate = self.0.quota.rate(per_second);
        let name = format!("{tenant}:{what}");
        self.0.quotas.take(&name, units, rate).await.map_err(|wait| {
            let problem = format!("the tenant's quota of {what} is used up; retry later");
            Error::new(ErrorKind::Exhausted, "QUOTA_SPENT", problem).with_retry_after(wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_by_the_names_they_have_and_others_are_refused_with_them() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse::<Scope>().unwrap(), scope);
        }
        let refused = "Read".parse::<Scope>().unwrap_err().to_string();
        assert!(refused.contains("`read`, `write`, `admin`, got `Read`"), "{refused}");
    }
}
