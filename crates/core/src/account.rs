//! Accounts: the owner, budget and spending that a piece of work runs on.
//!
//! Each question has one account, and everything done for the question works on it. Anything that
//! asks a language model is therefore reached only through an account: [`Reasoners`] and
//! [`GraphBuilders`] give each account its own reasoner, guide and graph builder, as
//! [`crate::Corpora`] gives each caller a corpus with only what they may see.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::{
    Budget, Cost, Embedding, Encoder, EncoderIdentity, Encoders, Error, ErrorKind, GraphBuilder,
    Guide, Ledger, PassagesRead, Priority, ReadPassage, Reasoner, Reranker, Scored, Span,
    SpanReader, TextKind,
};

/// Owner of cached replies: a hash of a tenant's name, from which nobody reads the name, or nothing
/// for the operator.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Owner(Option<[u8; 32]>);

impl Owner {
    /// Length of the hash, in bytes.
    pub const BYTES: usize = 32;

    /// Returns the owner for the tenant of that name, or for the operator if there is none.
    pub fn of(tenant: Option<&str>) -> Self {
        Self(tenant.map(|name| blake3::derive_key("clew tenant v1", name.as_bytes())))
    }

    /// Parses the output of [`Self::as_bytes`]. Returns `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => Some(Self(None)),
            hash => hash.try_into().ok().map(|hash| Self(Some(hash))),
        }
    }

    /// Returns the hash; empty for the operator.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |hash| hash.as_slice())
    }
}

/// Writes the hash in hexadecimal digits; nothing for the operator.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// Owner and ledger of a question or another piece of work. Cheap to clone; clones share the
/// ledger.
#[derive(Clone, Debug)]
pub struct Account {
    owner: Owner,
    ledger: Arc<Ledger>,
}

impl Account {
    /// Creates an account of `owner` with this ledger.
    pub fn new(owner: Owner, ledger: Ledger) -> Self {
        Self { owner, ledger: Arc::new(ledger) }
    }

    /// Creates an account of `owner` that may spend `budget`.
    pub fn open(owner: Owner, budget: Budget) -> Self {
        Self::new(owner, Ledger::new(budget))
    }

    /// Returns the owner.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the ledger, which tells what the account may spend and has spent.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Wraps a reranker so that its tokens are counted on this account.
    pub fn reranking(&self, reranker: Arc<dyn Reranker>) -> Arc<dyn Reranker> {
        Arc::new(Metered { inner: reranker, ledger: Arc::clone(&self.ledger) })
    }

    /// Wraps a reader so that its tokens are counted on this account, as those of a reranker are.
    pub fn reading(&self, reader: Arc<dyn SpanReader>) -> Arc<dyn SpanReader> {
        Arc::new(Metered { inner: reader, ledger: Arc::clone(&self.ledger) })
    }

    /// Wraps encoders so that their tokens are counted on this account.
    pub fn metered(&self, encoders: Arc<dyn Encoders>) -> Arc<dyn Encoders> {
        Arc::new(Metered { inner: encoders, ledger: Arc::clone(&self.ledger) })
    }
}

/// Source of reasoners and guides for accounts.
#[async_trait]
pub trait Reasoners: Send + Sync {
    /// Returns the budget of one question for language models.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Unavailable`] or [`crate::ErrorKind::DeadlineExceeded`] if no
    /// node answers.
    async fn budget(&self, deadline: Instant) -> Result<Budget, Error>;

    /// Returns a reasoner that works on `account`.
    fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner>;

    /// Returns a guide that works on `account`.
    fn guide(&self, account: &Account) -> Arc<dyn Guide>;
}

/// Source of graph builders for accounts.
pub trait GraphBuilders: Send + Sync {
    /// Returns a graph builder that works on `account`.
    fn on(&self, account: &Account) -> Arc<dyn GraphBuilder>;

    /// Returns a graph builder for estimates. It asks no model and spends nothing. Its results are
    /// about as large as real ones, and the costs that it reports are those that the real ones
    /// would have.
    fn rehearsal(&self) -> Arc<dyn GraphBuilder>;
}

/// Bytes of an English token, approximately. Used when only a time limit tells how much of a text
/// was read.
const BYTES_PER_TOKEN: usize = 4;

/// Texts that a model is reading. If this is dropped before the call ends, as when nobody waits for
/// it any longer, the texts count by their length: the model has them and reads them.
struct Reading<'a> {
    ledger: &'a Ledger,
    spent: Cost,
}

impl<'a> Reading<'a> {
    fn begin(ledger: &'a Ledger, bytes: usize, cost: impl FnOnce(u64) -> Cost) -> Self {
        Self { ledger, spent: cost(bytes.div_ceil(BYTES_PER_TOKEN) as u64) }
    }

    /// Ends the call with its actual cost. A call that exceeded its deadline keeps the estimate;
    /// any other failed call costs nothing.
    fn end<T>(mut self, read: &Result<T, Error>, cost: impl FnOnce(&T) -> Cost) {
        match read {
            Ok(read) => self.spent = cost(read),
            Err(error) if error.kind() == ErrorKind::DeadlineExceeded => {}
            Err(_) => self.spent = Cost::default(),
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.ledger.add_aside(self.spent);
    }
}

/// Wrapper that counts the tokens that encoders, rerankers and readers read on a ledger.
struct Metered<T: ?Sized> {
    inner: Arc<T>,
    ledger: Arc<Ledger>,
}

impl Metered<dyn Encoders> {
    fn encoder(&self, encoder: Arc<dyn Encoder>) -> Arc<dyn Encoder> {
        Arc::new(Metered { inner: encoder, ledger: Arc::clone(&self.ledger) })
    }
}

#[async_trait]
impl Encoders for Metered<dyn Encoders> {
    fn current(&self) -> Arc<dyn Encoder> {
        self.encoder(self.inner.current())
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        self.inner.offered()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        Ok(self.encoder(self.inner.of(identity, deadline).await?))
    }
}

#[async_trait]
impl Encoder for Metered<dyn Encoder> {
    fn identity(&self) -> &EncoderIdentity {
        self.inner.identity()
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.inner.token_spans(text)
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let cost = |embedded_tokens| Cost { embedded_tokens, ..Cost::default() };
        let bytes = texts.iter().map(String::len).sum();
        let reading = Reading::begin(&self.ledger, bytes, cost);
        let embedded = self.inner.embed(texts, kind, priority, deadline).await;
        reading.end(&embedded, |all| cost(all.iter().map(|one| u64::from(one.tokens)).sum()));
        embedded
    }
}

#[async_trait]
impl Reranker for Metered<dyn Reranker> {
    async fn reranker_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        self.inner.reranker_model(deadline).await
    }

    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let cost = |reranked_tokens| Cost { reranked_tokens, ..Cost::default() };
        let bytes = passages.iter().map(|passage| query.len() + passage.len()).sum();
        let reading = Reading::begin(&self.ledger, bytes, cost);
        let scored = self.inner.score(query, passages, deadline).await;
        reading.end(&scored, |scored| cost(scored.tokens));
        scored
    }
}

#[async_trait]
impl SpanReader for Metered<dyn SpanReader> {
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        self.inner.reader_model(deadline).await
    }

    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let cost = |reranked_tokens| Cost { reranked_tokens, ..Cost::default() };
        let bytes = passages.iter().map(|passage| question.len() + passage.text.len()).sum();
        let reading = Reading::begin(&self.ledger, bytes, cost);
        let read = self.inner.read_spans(question, passages, deadline).await;
        reading.end(&read, |read| cost(read.tokens));
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reranker that reports three tokens for each passage. It refuses 0 passages, exceeds the
    /// deadline for 5 and never answers for 6.
    struct Reads;

    #[async_trait]
    impl Reranker for Reads {
        async fn reranker_model(&self, _: Instant) -> Result<Option<String>, Error> {
            Ok(Some("reads".to_owned()))
        }

        async fn score(&self, _: &str, passages: Vec<String>, _: Instant) -> Result<Scored, Error> {
            match passages.len() {
                0 => Err(crate::NoReranker::refusal()),
                5 => Err(Error::deadline("reranking")),
                6 => std::future::pending().await,
                read => Ok(Scored { scores: vec![0.5; read], tokens: 3 * read as u64 }),
            }
        }
    }

    #[test]
    fn what_a_reranker_reads_is_spent_on_the_account_and_no_budget_bounds_it() {
        let account = Account::open(Owner::of(None), Budget { tokens: 1, ..Budget::UNBOUNDED });
        let reranker = account.reranking(Arc::new(Reads));
        let now = Instant::now();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for passages in [4, 0, 1] {
            let mut scoring = reranker.score("q", vec![String::new(); passages], now);
            assert!(scoring.as_mut().poll(&mut context).is_ready());
        }
        let cost = account.ledger().cost();
        assert_eq!((cost.reranked_tokens, cost.tokens(), cost.is_out_of_budget), (15, 15, false));
        let of_others = crate::Spent::of(cost);
        assert_eq!(of_others.cost(), cost);
    }

    #[test]
    fn what_a_reranker_was_given_counts_where_nobody_waited_for_it() {
        let now = Instant::now();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // Each passage of 36 bytes is read with the query of 4 bytes: 10 tokens.
        for (passages, tokens) in [(0, 0), (5, 50), (6, 60)] {
            let account = Account::open(Owner::of(None), Budget::UNBOUNDED);
            let reranker = account.reranking(Arc::new(Reads));
            let mut scoring = reranker.score("once", vec!["p".repeat(36); passages], now);
            let _is_ready = scoring.as_mut().poll(&mut context).is_ready();
            drop(scoring);
            assert_eq!(account.ledger().cost().reranked_tokens, tokens, "{passages}");
        }
    }

    #[test]
    fn owners_are_told_apart_by_what_travels_and_nothing_else_is_one() {
        let (acme, other) = (Owner::of(Some("acme")), Owner::of(Some("other")));
        assert_ne!(acme, other);
        for owner in [acme, other, Owner::of(None)] {
            assert_eq!(Owner::from_bytes(owner.as_bytes()), Some(owner));
        }
        assert_eq!(Owner::from_bytes(&[1; 31]), None);
        assert!(!acme.to_string().contains("acme") && acme.to_string().len() == 64);
    }
}
