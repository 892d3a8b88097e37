//! A stored memory for tests of memory models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, KeptMemory};

/// Stored memory that counts how often it was fetched.
pub struct Kept {
    key: String,
    pub bytes: Arc<Vec<u8>>,
    fetched: AtomicUsize,
}

impl Kept {
    pub fn new(number: u128, bytes: Vec<u8>) -> Self {
        let key = format!("{number:032x}");
        Self { key, bytes: Arc::new(bytes), fetched: AtomicUsize::new(0) }
    }

    /// Returns how often it was fetched.
    pub fn fetched(&self) -> usize {
        self.fetched.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl KeptMemory for Kept {
    fn key(&self) -> &str {
        &self.key
    }

    async fn bytes(&self, _deadline: Instant) -> Result<Arc<Vec<u8>>, Error> {
        self.fetched.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::clone(&self.bytes))
    }
}
