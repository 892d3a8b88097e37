//! The account of a request from elsewhere, and what its caller is told of it.

use std::pin::Pin;

use clew_core::{Account, Budget, Error, Ledger, Owner, Spent};
use clew_proto::convert::account as convert;
use clew_proto::query::v1 as wire;
use futures::{Stream, stream};
use tokio::sync::watch;
use tracing::{Instrument, Span};

/// The account that a request from another node is worked on with here.
pub struct Received {
    account: Account,
    spent: Option<watch::Receiver<Spent>>,
}

/// What a caller is told while something is done for them.
pub enum Told<T> {
    /// What was spent on it so far.
    Spent(wire::Spent),
    /// What it came to; the last.
    Done(T),
}

impl Received {
    /// Of what the request says may be left, no more than `own` is spent here. A request that says nothing is nobody's.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming the fields at fault.
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

    /// A request of whose account its caller is told nothing.
    pub fn on(account: Account) -> Self {
        Self { account, spent: None }
    }

    /// What the request is worked on with.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Does `work`, and tells what is spent on the account meanwhile, whenever that changes, if the caller wants to
    /// know. Who drops this ends the work.
    pub fn while_working<T, W>(self, work: W) -> impl Stream<Item = Told<T>> + Send
    where
        T: Send,
        W: Future<Output = T> + Send,
    {
        // It is done while the response is read, and belongs to the trace of its request all the same.
        let (work, told) = (Some(Box::pin(work.instrument(Span::current()))), Spent::default());
        let working = Working { work, came_to: None, spent: self.spent, told };
        stream::unfold(working, Working::next)
    }
}

struct Working<T, W> {
    work: Option<Pin<Box<W>>>,
    came_to: Option<T>,
    spent: Option<watch::Receiver<Spent>>,
    /// What was told of it.
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
            // What was spent last is told before what came of it.
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

/// Waits until more is spent; `false` if that will not be.
async fn is_changed(spent: &mut Option<watch::Receiver<Spent>>) -> bool {
    match spent {
        Some(spent) => spent.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}
