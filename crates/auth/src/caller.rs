//! The authenticated caller of a request.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use clew_cluster::{FillRate, Quotas};
use clew_core::{Access, CorpusName, Error, ErrorKind, Owner, TenantName, Timestamp};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tonic::Request;

use crate::tenant::TenantEntry;

/// A class of operations that a key permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Searching, asking, and seeing what is stored.
    Read,
    /// Storing and forgetting documents and turns.
    Write,
    /// Creating and deleting corpora.
    Admin,
}

impl Scope {
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Returns the name of the scope.
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

/// A set of scopes.
pub type Scopes = BTreeSet<Scope>;

/// What a caller is permitted, apart from the labels that they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Whether a key permits it. If not, the server asks for no key, or the caller is a node.
    pub by_key: bool,
    /// Scopes that the caller has.
    pub scopes: Scopes,
    /// Time at which the key expires, if it does.
    pub expires: Option<Timestamp>,
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// Requests.
    Requests,
    /// Bytes of incoming text.
    Bytes,
    /// Tokens that models read and write.
    Tokens,
}

impl Metered {
    const ALL: [Self; 3] = [Self::Requests, Self::Bytes, Self::Tokens];

    /// Returns the name in messages, and in the names of buckets.
    fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Tokens => "tokens",
        }
    }
}

/// Quota of a tenant, with what is left of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaLeft {
    /// What it counts.
    pub metered: Metered,
    /// Units that it gains in a second.
    pub per_second: f64,
    /// Units that it holds at most.
    pub burst: f64,
    /// Units that are left, 0 to `burst`.
    pub left: f64,
}

/// The caller of a request, as the guard identified it. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    /// Name of the caller's key, for logs.
    key: String,
    tenant: Option<TenantName>,
    granted: Granted,
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
    /// Creates a caller that may do everything: a node of the cluster, or a caller that needs no
    /// key.
    pub fn operator(key: &str) -> Self {
        Self(Arc::new(Inner {
            key: key.to_owned(),
            tenant: None,
            granted: Granted { by_key: false, scopes: Scope::ALL.into(), expires: None },
            access: Access::all(),
            quota: TenantEntry::default(),
            quotas: Quotas::local(),
        }))
    }

    pub(crate) fn new(
        key: &str,
        tenant: Option<TenantName>,
        granted: Granted,
        access: Access,
        quota: TenantEntry,
        quotas: Quotas,
    ) -> Self {
        Self(Arc::new(Inner { key: key.to_owned(), tenant, granted, access, quota, quotas }))
    }

    /// Returns the caller that sent a request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] if the request did not pass a guard, so that its caller is
    /// unknown.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Error> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| Error::internal("a request came past the guard"))
    }

    /// Returns the name of the caller's key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Returns the tenant whose corpora the caller can reach. `None` stands for an operator, who
    /// reaches the corpora of all tenants and the operator's own by their full names.
    pub fn tenant(&self) -> Option<&TenantName> {
        self.0.tenant.as_ref()
    }

    /// Returns what the caller is permitted.
    pub fn granted(&self) -> &Granted {
        &self.0.granted
    }

    /// Returns the owner whose account the caller's requests are on.
    pub fn owner(&self) -> Owner {
        Owner::of(self.tenant().map(TenantName::as_str))
    }

    /// Returns the access labels that the caller holds.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// Returns the full name of the corpus that the caller calls `name`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the caller has a tenant and `name` already contains
    /// one.
    pub fn corpus(&self, name: &CorpusName) -> Result<CorpusName, Error> {
        match &self.0.tenant {
            Some(tenant) => CorpusName::of_tenant(tenant, name),
            None => Ok(name.clone()),
        }
    }

    /// Returns the name by which the caller knows `corpus`.
    pub fn name_of<'a>(&self, corpus: &'a CorpusName) -> &'a str {
        match self.0.tenant {
            Some(_) => corpus.within_tenant(),
            None => corpus.as_str(),
        }
    }

    /// Charges one request to the tenant's quota.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] with the time to wait if the quota is used up.
    pub async fn take_request(&self) -> Result<(), Error> {
        self.take(Metered::Requests, 1.0).await
    }

    /// Charges `requests` that the caller made with one request: each search of a batch but the
    /// first, which [`Self::take_request`] charged. Only the contents of a request tell their
    /// number, so if they exceed the quota, the tenant's next request waits for them. Otherwise a
    /// batch of more requests than the quota ever holds could never succeed.
    pub async fn used_requests(&self, requests: usize) {
        self.used(Metered::Requests, requests as f64).await;
    }

    /// Charges `bytes` of incoming text to the tenant's quota.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] with the time to wait if the quota is used up.
    pub async fn take_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.take(Metered::Bytes, bytes as f64).await
    }

    /// Checks that the tenant has tokens left, without charging any.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] with the time to wait if the quota is used up.
    pub async fn has_tokens(&self) -> Result<(), Error> {
        self.take(Metered::Tokens, 0.0).await
    }

    /// Charges `tokens` that were read and written for the tenant. The cost of a request is known
    /// only after it ran, so if it exceeds the quota, the tenant's next request waits for it.
    pub(crate) async fn used_tokens(&self, tokens: u64) {
        self.used(Metered::Tokens, tokens as f64).await;
    }

    /// Returns the quotas of the caller's tenant, with what is left of each.
    pub async fn quotas_left(&self) -> Vec<QuotaLeft> {
        let left = Metered::ALL.into_iter().filter_map(|metered| {
            let (bucket, rate) = self.bucket(metered)?;
            Some(async move {
                let left = self.0.quotas.left(&bucket, rate).await;
                let FillRate { per_second, burst } = rate;
                QuotaLeft { metered, per_second, burst, left }
            })
        });
        join_all(left).await
    }

    /// Returns the name of the bucket of a quota with its rate, or `None` if the caller has no such
    /// quota.
    fn bucket(&self, metered: Metered) -> Option<(String, FillRate)> {
        let Inner { tenant, quota, .. } = &*self.0;
        let per_second = match metered {
            Metered::Requests => quota.requests_per_second,
            Metered::Bytes => quota.bytes_per_second,
            Metered::Tokens => quota.tokens_per_second,
        };
        let tenant = tenant.as_ref()?;
        Some((format!("{tenant}:{}", metered.as_str()), quota.rate(per_second?)))
    }

    async fn used(&self, metered: Metered, units: f64) {
        if let Some((bucket, rate)) = self.bucket(metered)
            && units > 0.0
        {
            self.0.quotas.charge(&bucket, units, rate).await;
        }
    }

    async fn take(&self, metered: Metered, units: f64) -> Result<(), Error> {
        let Some((bucket, rate)) = self.bucket(metered) else { return Ok(()) };
        self.0.quotas.take(&bucket, units, rate).await.map_err(|wait| {
            let what = metered.as_str();
            let problem = format!("the tenant's quota of {what} is used up; retry later");
            Error::new(ErrorKind::Exhausted, "QUOTA_SPENT", problem).with_retry_after(wait)
        })
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns a caller of a tenant with quotas, who holds all labels.
    pub(crate) fn caller_with(quota: TenantEntry) -> Caller {
        let granted = Granted { by_key: true, scopes: Scopes::new(), expires: None };
        let tenant = Some("acme".parse().unwrap());
        Caller::new("key", tenant, granted, Access::all(), quota, Quotas::local())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_requests_of_a_batch_are_charged_and_the_next_one_waits_for_them() {
        let quota = TenantEntry { requests_per_second: Some(1.0), ..Default::default() };
        let caller = testing::caller_with(quota);
        caller.take_request().await.unwrap();
        caller.used_requests(0).await;
        caller.take_request().await.unwrap();
        // More than the ten that the quota holds.
        caller.used_requests(31).await;
        let wait = caller.take_request().await.unwrap_err().retry_after().unwrap();
        assert!(wait > Duration::from_secs(22) && wait <= Duration::from_secs(24), "{wait:?}");
    }

    #[tokio::test]
    async fn what_is_left_of_a_quota_is_told_and_nothing_of_what_is_unlimited() {
        let quota = TenantEntry {
            requests_per_second: Some(0.5),
            tokens_per_second: Some(1.0),
            burst_secs: Some(100.0),
            ..Default::default()
        };
        let caller = testing::caller_with(quota);
        caller.take_request().await.unwrap();
        caller.used_tokens(1000).await;
        let left = caller.quotas_left().await;
        let metered: Vec<Metered> = left.iter().map(|quota| quota.metered).collect();
        assert_eq!(metered, [Metered::Requests, Metered::Tokens]);
        assert_eq!((left[0].per_second, left[0].burst), (0.5, 50.0));
        assert!((49.0..49.5).contains(&left[0].left), "{:?}", left[0]);
        assert_eq!(left[1].left, 0.0);
        assert!(Caller::operator("anybody").quotas_left().await.is_empty());
    }

    #[test]
    fn scopes_are_read_by_the_names_they_have_and_others_are_refused_with_them() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse::<Scope>().unwrap(), scope);
        }
        let refused = "Read".parse::<Scope>().unwrap_err().to_string();
        assert!(refused.contains("`read`, `write`, `admin`, got `Read`"), "{refused}");
    }
}
