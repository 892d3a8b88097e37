//! The file of keys and tenants.

use std::collections::{BTreeSet, HashMap};

use clew_cluster::Quotas;
use clew_core::{Access, Error, Label, TenantName, Timestamp, Violations};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Granted, Scopes};
use crate::key::KeyHash;
use crate::tenant::TenantEntry;

/// The keys that a server accepts, with the quotas of their tenants.
#[derive(Debug, Default)]
pub struct Keys {
    by_hash: HashMap<KeyHash, (KeyEntry, Access)>,
    tenants: HashMap<TenantName, TenantEntry>,
}

/// A key: an entry `[[key]]` of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Name of the key in logs; unique.
    pub name: String,
    /// BLAKE3 hash of the key, as `clew key` prints it.
    pub hash: KeyHash,
    /// Tenant whose corpora the key gives access to. Without one, the key is an operator's: it
    /// gives access to the corpora of all tenants, by their full names (`tenant.corpus`), and to
    /// the cluster's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// Scopes that the key permits.
    pub scopes: Scopes,
    /// Access labels that the key's bearer holds, none by default. `["*"]` stands for all labels.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Time at which the key expires, such as `2030-01-31T00:00:00Z`. Without it, the key never
    /// expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<KeyEntry>,
    #[serde(default)]
    tenant: Vec<TenantEntry>,
}

/// Entry of a key's list of labels that stands for every label.
const ALL_LABELS: &str = "*";

impl KeyEntry {
    /// Returns the access that the key's labels give.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if an entry of `labels` is not a valid label.
    pub fn access(&self) -> Result<Access, Error> {
        if self.labels.contains(ALL_LABELS) {
            return Ok(Access::all());
        }
        let labels: Result<Vec<Label>, _> = self.labels.iter().map(|label| label.parse()).collect();
        Ok(Access::holding(labels?))
    }
}

impl Keys {
    /// Parses the file.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the fields at fault, if the file is
    /// not valid. The message contains nothing of the file's text.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let not_toml = |place: String| Error::invalid("auth.keys_file", place);
        let text = std::str::from_utf8(text).map_err(|_| not_toml("expected UTF-8".to_owned()))?;
        let file: File = toml::from_str(text).map_err(|error| {
            // The parser's own message quotes the line, which may hold a key that was put there by
            // mistake.
            let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            not_toml(format!(
                "expected [[key]] and [[tenant]] tables with the fields of the manual; line {line} has something else"
            ))
        })?;
        let mut violations = Violations::default();
        let mut keys = Self::default();
        let mut names = BTreeSet::new();
        for key in file.key {
            if key.scopes.is_empty() {
                violations.push("key.scopes", "expected read, write or admin");
            }
            if key.name.is_empty() || key.name.len() > 100 || !names.insert(key.name.clone()) {
                violations.push("key.name", "expected 1 to 100 bytes that no other key has");
            }
            let access = violations.take(key.access()).unwrap_or_else(|| Access::holding([]));
            if keys.by_hash.insert(key.hash, (key, access)).is_some() {
                violations.push("key.hash", "expected every hash once");
            }
        }
        for tenant in file.tenant {
            tenant.check(&mut violations);
            let Some(name) = tenant.name.clone() else { continue };
            if keys.tenants.insert(name, tenant).is_some() {
                violations.push("tenant.name", "expected every tenant once");
            }
        }
        violations.into_result()?;
        Ok(keys)
    }

    /// Returns the caller that presents a key. Returns `None` if the key is unknown or has expired.
    pub(crate) fn find(&self, presented: &[u8], now: Timestamp, quotas: &Quotas) -> Option<Caller> {
        let (key, access) = self.by_hash.get(&KeyHash::of(presented))?;
        let expires = key.expires.map(|expires| Timestamp::from_micros(expires.as_microsecond()));
        if expires.is_some_and(|expires| expires <= now) {
            return None;
        }
        let quota = key.tenant.as_ref().and_then(|tenant| self.tenants.get(tenant));
        let quota = quota.cloned().unwrap_or_default();
        let granted = Granted { by_key: true, scopes: key.scopes.clone(), expires };
        let (tenant, access) = (key.tenant.clone(), access.clone());
        Some(Caller::new(&key.name, tenant, granted, access, quota, quotas.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Scope;
    use crate::key::ApiKey;

    fn file(key: &ApiKey, rest: &str) -> String {
        format!("[[key]]\nname = 'k'\nhash = '{}'\nscopes = ['read']\n{rest}", key.hash())
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn a_key_opens_until_it_ends() {
        let key = ApiKey::generate().unwrap();
        let rest = "tenant = 'acme'\nlabels = ['hr']\nexpires = '2030-01-01T00:00:00Z'\n";
        let keys = Keys::parse(file(&key, rest).as_bytes()).unwrap();
        let quotas = Quotas::local();
        let find = |key: &ApiKey, when: &str| {
            let found = keys.find(key.reveal().as_bytes(), at(when), &quotas);
            found.map(|caller| {
                let (tenant, access) = (caller.tenant().cloned(), caller.access().clone());
                (tenant, access, caller.granted().clone())
            })
        };
        let (tenant, access, granted) = find(&key, "2029-12-31T23:59:59Z").unwrap();
        assert_eq!(tenant.unwrap().as_str(), "acme");
        assert_eq!(access, Access::holding(["hr".parse().unwrap()]));
        let expires = Some(at("2030-01-01T00:00:00Z"));
        assert_eq!(granted, Granted { by_key: true, scopes: [Scope::Read].into(), expires });
        assert!(find(&key, "2030-01-01T00:00:00Z").is_none());
        assert!(find(&ApiKey::generate().unwrap(), "2029-01-01T00:00:00Z").is_none());
    }

    #[test]
    fn a_broken_file_is_refused_without_showing_it() {
        let key = ApiKey::generate().unwrap();
        let good = file(&key, "");
        let twice = format!("{good}{good}");
        let other_field = file(&key, "scope = 'read'\n");
        let no_label = file(&key, "labels = ['No Label']\n");
        let plain = good.replace(&key.hash().to_string(), key.reveal());
        for bad in [
            &twice,
            &other_field,
            &plain,
            &no_label,
            "[[key]",
            "[[tenant]]\nname = 'a'\nrequests_per_second = 0.0\n",
        ] {
            let error = Keys::parse(bad.as_bytes()).unwrap_err();
            assert!(!error.chain().contains(key.reveal()), "{}", error.chain());
        }
        assert!(Keys::parse(b"").unwrap().by_hash.is_empty());
    }
}
