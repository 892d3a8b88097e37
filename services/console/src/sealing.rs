//! Logins: a caller's key, sealed with a time at which it ends, as the value of a cookie.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clew_core::{Error, Timestamp};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Names what is sealed, so that nothing else that the secret may ever seal is taken for a login.
const PURPOSE: &[u8] = b"clew console login 1";
/// Bytes of the time in front of the key.
const TIME_BYTES: usize = 8;
/// Most bytes of a key that is sealed. Browsers keep cookies of up to 4 KiB.
pub(crate) const MAX_KEY_BYTES: usize = 1024;

/// Seals keys and opens them again. Nobody without the secret can read a sealed key, make one, or
/// prolong one.
pub(crate) struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
    lasts: Duration,
}

impl Sealer {
    /// Creates a sealer with `secret`, or with one of its own. A sealed key can be opened for as
    /// long as `lasts`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the system gives no random bytes.
    pub fn new(secret: Option<&str>, lasts: Duration) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let mut bytes = [0; 32];
        match secret {
            Some(secret) => bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref()),
            None => fill(&random, &mut bytes)?,
        }
        let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("a digest is as long as the key");
        Ok(Self { key: LessSafeKey::new(key), random, lasts })
    }

    /// Returns the time for which a sealed key can be opened.
    pub fn lasts(&self) -> Duration {
        self.lasts
    }

    /// Seals a key at the time `now`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the system gives no random bytes.
    pub fn seal(&self, key: &str, now: Timestamp) -> Result<String, Error> {
        // Of 96 bits: logins are far too few for two to meet.
        let mut nonce = [0; NONCE_LEN];
        fill(&self.random, &mut nonce)?;
        let mut sealed = now.saturating_add(self.lasts).as_micros().to_be_bytes().to_vec();
        sealed.extend_from_slice(key.as_bytes());
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(PURPOSE),
                &mut sealed,
            )
            .map_err(|_| Error::internal("a login could not be sealed"))?;
        Ok(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Opens a sealed key at the time `now`. Returns `None` if it was not sealed here, was changed,
    /// or has ended.
    pub fn open(&self, sealed: &str, now: Timestamp) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(PURPOSE), &mut sealed).ok()?;
        let (time, key) = opened.split_at_checked(TIME_BYTES)?;
        let ends = Timestamp::from_micros(i64::from_be_bytes(time.try_into().ok()?));
        let key = std::str::from_utf8(key).ok()?;
        (now < ends).then(|| key.to_owned())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("lasts", &self.lasts).finish_non_exhaustive()
    }
}

fn fill(random: &SystemRandom, bytes: &mut [u8]) -> Result<(), Error> {
    random.fill(bytes).map_err(|_| Error::internal("the system gives no random bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOW: i64 = 1_800_000_000_000_000;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_sealed_key_is_opened_until_it_ends() {
        let sealer = Sealer::new(None, HOUR).unwrap();
        let sealed = sealer.seal("clew_abc", at(NOW)).unwrap();
        assert!(!sealed.contains("abc"));
        assert_eq!(sealer.open(&sealed, at(NOW)).as_deref(), Some("clew_abc"));
        let hour = 3_600_000_000;
        assert!(sealer.open(&sealed, at(NOW + hour - 1)).is_some());
        assert_eq!(sealer.open(&sealed, at(NOW + hour)), None);
    }

    #[test]
    fn two_seals_of_a_key_differ() {
        let sealer = Sealer::new(None, HOUR).unwrap();
        assert_ne!(sealer.seal("a", at(NOW)).unwrap(), sealer.seal("a", at(NOW)).unwrap());
    }

    #[test]
    fn only_the_same_secret_opens_and_nothing_that_was_changed() {
        let secret = "a secret of at least thirty-two bytes";
        let sealer = Sealer::new(Some(secret), HOUR).unwrap();
        let sealed = sealer.seal("clew_abc", at(NOW)).unwrap();
        let again = Sealer::new(Some(secret), HOUR).unwrap();
        assert_eq!(again.open(&sealed, at(NOW)).as_deref(), Some("clew_abc"));
        for other in [Some("another secret of as many bytes as it"), None] {
            assert_eq!(Sealer::new(other, HOUR).unwrap().open(&sealed, at(NOW)), None);
        }
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(sealer.open(&changed, at(NOW)), None, "byte {place}");
        }
        for broken in ["", "A", "%", "AAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(sealer.open(broken, at(NOW)), None, "{broken}");
        }
    }
}
