//! API keys and their hashes.

use std::fmt;
use std::str::FromStr;

use clew_core::Error;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// Prefix of every key, by which secret scanners recognise a leaked one.
const PREFIX: &str = "clew_";
/// Number of random bytes in a key.
const SECRET_BYTES: usize = 32;

/// An API key: `clew_` and 64 hexadecimal digits. Shown only to the person who created it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// The BLAKE3 hash of a key, which is all that is stored of it. Compared in constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyHash(blake3::Hash);

impl ApiKey {
    /// Generates a new key.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the system has no source of random numbers.
    pub fn generate() -> Result<Self, Error> {
        let mut secret = [0; SECRET_BYTES];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| Error::internal("this system gives no random numbers"))?;
        let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{PREFIX}{digits}")))
    }

    /// Returns the key itself, to show it to the person who created it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the hash to store.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl KeyHash {
    /// Hashes the key that a caller presents.
    pub fn of(presented: &[u8]) -> Self {
        Self(blake3::hash(presented))
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl FromStr for KeyHash {
    type Err = Error;

    fn from_str(digits: &str) -> Result<Self, Error> {
        let hash = blake3::Hash::from_hex(digits);
        hash.map(Self).map_err(|_| {
            // The message leaves out the input, which may be the key itself, put there by mistake.
            Error::invalid("hash", "expected 64 hexadecimal digits, as `clew key` prints them")
        })
    }
}

impl TryFrom<String> for KeyHash {
    type Error = Error;

    fn try_from(digits: String) -> Result<Self, Error> {
        digits.parse()
    }
}

impl From<KeyHash> for String {
    fn from(hash: KeyHash) -> String {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_show_themselves_to_nobody() {
        let (one, two) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_ne!(one.reveal(), two.reveal());
        assert_eq!(one.reveal().len(), PREFIX.len() + 2 * SECRET_BYTES);
        assert_eq!(KeyHash::of(one.reveal().as_bytes()), one.hash());
        assert!(!format!("{one:?}").contains(&one.reveal()[PREFIX.len()..]));
        assert_eq!(one.hash().to_string().parse::<KeyHash>().unwrap(), one.hash());
        let error = one.reveal().parse::<KeyHash>().unwrap_err();
        assert!(!error.chain().contains(one.reveal()));
    }
}
