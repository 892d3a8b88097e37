//! Encoders that cache the embeddings of questions, for all gateways of the cluster and for each
//! tenant separately.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_core::{
    Embedding, Encoder, EncoderIdentity, Encoders, Error, Owner, Priority, Span, TextKind,
};
use futures::future::join_all;

/// Encoders that cache questions, because questions recur. Passages are embedded only once anyway.
pub(crate) struct CachedQuestions {
    encoders: Arc<dyn Encoders>,
    cache: Cache,
    owner: Owner,
}

impl CachedQuestions {
    /// Creates encoders that cache the questions of `owner` and see none of other owners.
    pub fn new(encoders: Arc<dyn Encoders>, cache: Cache, owner: Owner) -> Self {
        Self { encoders, cache, owner }
    }

    fn cached(&self, encoder: Arc<dyn Encoder>) -> Arc<dyn Encoder> {
        let (cache, owner) = (self.cache.clone(), self.owner);
        Arc::new(CachedEncoder { encoder, cache, owner })
    }
}

#[async_trait]
impl Encoders for CachedQuestions {
    fn current(&self) -> Arc<dyn Encoder> {
        self.cached(self.encoders.current())
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        self.encoders.offered()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        Ok(self.cached(self.encoders.of(identity, deadline).await?))
    }
}

/// One of the encoders, with the cache.
struct CachedEncoder {
    encoder: Arc<dyn Encoder>,
    cache: Cache,
    owner: Owner,
}

impl CachedEncoder {
    fn key(&self, text: &str) -> String {
        key(self.owner, self.encoder.identity(), text)
    }
}

/// Returns the cache key of a question. The key does not reveal the question, and differs by owner
/// and model.
fn key(owner: Owner, model: &EncoderIdentity, text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("clew question embedding v2");
    hasher.update(&[u8::from(!owner.as_bytes().is_empty())]);
    hasher.update(owner.as_bytes());
    // The fingerprint has the same length for every model.
    hasher.update(model.fingerprint().as_bytes());
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[async_trait]
impl Encoder for CachedEncoder {
    fn identity(&self) -> &EncoderIdentity {
        self.encoder.identity()
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.encoder.token_spans(text)
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        if kind != TextKind::Query {
            return self.encoder.embed(texts, kind, priority, deadline).await;
        }
        let dimension = self.encoder.identity().dimension as usize;
        let keys: Vec<String> = texts.iter().map(|text| self.key(text)).collect();
        let cached = join_all(keys.iter().map(|key| self.cache.get(key))).await;
        let mut found: Vec<Option<Embedding>> =
            cached.into_iter().map(|bytes| from_bytes(&bytes?, dimension)).collect();
        let missing = texts.into_iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<String> = missing.map(|(text, _)| text).collect();
        if !missing.is_empty() {
            let embedded = self.encoder.embed(missing, kind, priority, deadline).await?;
            let empty = found.iter_mut().zip(&keys).filter(|(place, _)| place.is_none());
            for ((place, key), embedding) in empty.zip(embedded) {
                self.cache.put(key, to_bytes(&embedding));
                *place = Some(embedding);
            }
        }
        let all: Option<Vec<Embedding>> = found.into_iter().collect();
        all.ok_or_else(|| Error::internal("the encoder returned fewer vectors than texts"))
    }
}

/// Encodes an embedding: whether the text was truncated, then the vector, little-endian.
fn to_bytes(embedding: &Embedding) -> Vec<u8> {
    let vector = embedding.vector.iter().flat_map(|component| component.to_le_bytes());
    std::iter::once(u8::from(embedding.truncated)).chain(vector).collect()
}

/// Decodes an embedding, at a cost of no tokens. Returns `None` for anything but a vector of that
/// dimension.
fn from_bytes(bytes: &[u8], dimension: usize) -> Option<Embedding> {
    let (&truncated, vector) = bytes.split_first()?;
    let (components, rest) = vector.as_chunks::<4>();
    if components.len() != dimension || !rest.is_empty() || truncated > 1 {
        return None;
    }
    let vector: Vec<f32> = components.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let is_sound = vector.iter().all(|component| component.is_finite());
    is_sound.then_some(Embedding { vector, tokens: 0, truncated: truncated == 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_has_keys_of_their_own() {
        let model = |name: &str| EncoderIdentity {
            model: name.to_owned(),
            revision: "1".to_owned(),
            dimension: 2,
            max_tokens: 8,
        };
        let owners = [Owner::of(None), Owner::of(Some("acme")), Owner::of(Some("other"))];
        let asked = |owner, name, text| key(owner, &model(name), text);
        let mut keys = std::collections::BTreeSet::new();
        for owner in owners {
            assert_eq!(asked(owner, "a", "who?"), asked(owner, "a", "who?"));
            keys.extend(
                [("a", "who?"), ("b", "who?"), ("a", "why?")]
                    .map(|(name, text)| asked(owner, name, text)),
            );
        }
        assert_eq!(keys.len(), 9);
    }

    #[test]
    fn an_embedding_comes_back_and_nothing_else_does() {
        let embedding = Embedding { vector: vec![0.5, -1.0], tokens: 4, truncated: true };
        let bytes = to_bytes(&embedding);
        let back = from_bytes(&bytes, 2).unwrap();
        assert_eq!(back, Embedding { tokens: 0, ..embedding });
        assert_eq!(from_bytes(&bytes, 3), None);
        assert_eq!(from_bytes(&bytes[..8], 2), None);
        assert_eq!(from_bytes(&[], 0), None);
        let mut broken = bytes.clone();
        broken[1..5].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(from_bytes(&broken, 2), None);
        broken[0] = 7;
        assert_eq!(from_bytes(&broken, 2), None);
    }
}
