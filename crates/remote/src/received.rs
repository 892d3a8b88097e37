//! The account of a request from another node, and reports to the caller about it.

use std::pin::Pin;

use clew_core::{Account, Budget, Error, Ledger, Owner, Spent};
use clew_proto::convert::account as convert;
use clew_proto::query::v1 as wire;
use futures::{Stream, stream};
use tokio::sync::watch;
use tracing::{Instrument, Span};

/// Account of a request from another node, as this node works on it.
pub struct ReceivedAccount {
    account: Account,
    spent: Option<watch::Receiver<Spent>>,
}

/// Message to a caller while its request is worked on.
pub enum Told<T> {
    /// Everything spent on the request so far.
    Spent(wire::Spent),
    /// The result; the last message.
    Done(T),
}

impl ReceivedAccount {
    /// Opens the account that a request carries, bounded by its remaining budget and by `own`. A
    /// request without an account works for the default owner within `own`, and its caller gets no
    /// reports.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid field.
    pub fn of(account: Option<&wire::Account>, own: Budget) -> Result<Self, Error> {
        let Some(account) = account else {
            return Ok(Self::on(Account::open(Owner::default(), own)));
        };
        let (owner, left) = convert::account_from_wire(account)?;
        let (tell, told) = watch::channel(Spent::default());
        let ledger = Ledger::watched(left.min(own), move |spent| {
            tell.send_replace(spent);
        });
        Ok(Self { account: Account::new(owner, ledger), spent: Some(told) })
    }

    /// Creates a request on `account` whose caller gets no reports of spending.
    pub fn on(account: Account) -> Self {
        Self { account, spent: None }
    }

    /// Returns the account that the request is worked on.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Runs `work` and streams its result. If the caller wants reports, the stream also has the
    /// spending on the account whenever it changes. Dropping the stream ends the work.
    pub fn while_working<T, W>(self, work: W) -> impl Stream<Item = Told<T>> + Send
    where
        T: Send,
        W: Future<Output = T> + Send,
    {
        // The work runs while the response is read, and still belongs to the trace of its request.
        let (work, told) = (Some(Box::pin(work.instrument(Span::current()))), Spent::default());
        let working = Working { work, came_to: None, spent: self.spent, told };
        stream::unfold(working, Working::next)
    }
}

struct Working<T, W> {
    work: Option<Pin<Box<W>>>,
    came_to: Option<T>,
    spent: Option<watch::Receiver<Spent>>,
    /// Spending that was reported last.
    told: Spent,
}

impl<T, W: Future<Output = T>> Working<T, W> {
    async fn next(mut self) -> Option<(Told<T>, Self)> {
        loop {
            if let Some(work) = &mut self.work {
                tokio::select! {
                    biased;
                    true = is_changed(&mut self.spent) => {}
                    came_to = work => {
                        self.work = None;
                        self.came_to = Some(came_to);
                    }
                }
            }
            // Report the last spending before the result.
            let spent = self.spent.as_ref().map_or(self.told, |spent| *spent.borrow());
            if spent != self.told {
                self.told = spent;
                return Some((Told::Spent(convert::spent_to_wire(&spent)), self));
            }
            if self.work.is_none() {
                return self.came_to.take().map(|came_to| (Told::Done(came_to), self));
            }
        }
    }
}

/// Waits until the spending changes. Returns `false` if it cannot change any more.
async fn is_changed(spent: &mut Option<watch::Receiver<Spent>>) -> bool {
    match spent {
        Some(spent) => spent.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}
