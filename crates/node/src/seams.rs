//! Seams that the roles of one process share.

use std::sync::Arc;

use clew_core::{Encoders, Error, Generator, GraphBuilders, MemoryEncoder, SpanReader};
use tokio::sync::OnceCell;

/// Seams that the roles of one process share.
///
/// A role that runs here offers its seam, and the roles that start after it take that one. If no
/// role of this process offers a seam, the first role that needs it connects to other nodes, and
/// the others take that connection.
#[derive(Default)]
pub struct SharedSeams {
    /// Encoders for documents and questions.
    pub encoders: Shared<Arc<dyn Encoders>>,
    /// The language model; `None` if the generator of this process has none.
    pub generator: Shared<Option<Arc<dyn Generator>>>,
    /// Graph builders for trees and graphs.
    pub graph_builders: Shared<Arc<dyn GraphBuilders>>,
    /// Model that forms compressed memories. No role offers its own: encoders of several nodes may
    /// have one, and all of them share the work.
    pub memory_encoder: Shared<Arc<dyn MemoryEncoder>>,
    /// Reader that finds answers in passages. No role offers its own: all encoders that have one
    /// share the work.
    pub reader: Shared<Arc<dyn SpanReader>>,
}

/// A seam that several roles of a process use.
pub struct Shared<T>(OnceCell<T>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T: Clone> Shared<T> {
    /// Offers a seam of this process to the roles that start later.
    pub fn offer(&self, seam: T) {
        let is_first = self.0.set(seam).is_ok();
        debug_assert!(is_first, "a role that offers a seam starts before those that use it");
    }

    /// Returns the seam. `connect` makes it if it is not there yet.
    ///
    /// # Errors
    /// Returns the errors of `connect`.
    pub fn or_connect(
        &self,
        connect: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        // Boxed because connecting is a large future.
        let connect = Box::pin(connect);
        async move { self.0.get_or_try_init(|| connect).await.cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_seam_of_this_process_comes_before_a_connection() {
        let shared = Shared::default();
        shared.offer("here");
        assert_eq!(shared.or_connect(async { Ok("there") }).await.unwrap(), "here");
    }

    #[tokio::test]
    async fn roles_share_the_first_connection() {
        let shared = Shared::default();
        let failed = shared.or_connect(async { Err(Error::internal("nobody answers")) }).await;
        assert!(failed.is_err());
        assert_eq!(shared.or_connect(async { Ok("first") }).await.unwrap(), "first");
        assert_eq!(shared.or_connect(async { Ok("second") }).await.unwrap(), "first");
    }
}
