//! Handler of `CorpusService`.

use std::sync::Arc;

use crate::Backends;

/// Handler of `CorpusService`.
pub(crate) struct Corpora {
    pub backends: Arc<Backends>,
}
