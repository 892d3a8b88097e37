//! Charging of the tokens that a request spends, however the request ends.

use clew_core::{Account, Budget};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::Caller;

/// The account of a caller's request, charged to the tenant's quota of tokens. [`Bill::settle`]
/// charges what was spent so far. Dropping the bill charges the rest, so that a request whose
/// caller leaves or whose deadline passes is paid for as well.
///
/// The work that spends the tokens must therefore own the bill and drop it when it ends, within an
/// asynchronous runtime.
pub struct Bill {
    caller: Caller,
    account: Account,
    charged: u64,
}

impl Bill {
    /// Opens a new account for `caller` that may spend `budget` on language models.
    pub fn open(caller: &Caller, budget: Budget) -> Self {
        Self::on(caller, Account::open(caller.owner(), budget))
    }

    /// Creates a bill that charges `caller` for everything spent on `account` from now on.
    pub fn on(caller: &Caller, account: Account) -> Self {
        let charged = account.ledger().cost().tokens();
        Self { caller: caller.clone(), account, charged }
    }

    /// Returns the account that the work is done on.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Charges what was spent so far and waits for it, so that the caller's next request sees the
    /// charge.
    pub async fn settle(&mut self) {
        if let Some(charging) = self.charge() {
            // The task fails only if the process is shutting down.
            charging.await.ok();
        }
    }

    /// Charges on a task of its own, because the caller's future may be dropped at any time. The
    /// task waits only briefly.
    fn charge(&mut self) -> Option<JoinHandle<()>> {
        let spent = self.account.ledger().cost().tokens();
        let due = spent.saturating_sub(self.charged);
        if due == 0 || self.caller.tenant().is_none() {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        self.charged = spent;
        let caller = self.caller.clone();
        Some(runtime.spawn(async move { caller.used_tokens(due).await }))
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        drop(self.charge());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::Cost;

    use super::*;
    use crate::caller::testing::caller_with;
    use crate::tenant::TenantEntry;

    fn caller(tokens_per_second: f64) -> Caller {
        let quota =
            TenantEntry { tokens_per_second: Some(tokens_per_second), ..Default::default() };
        caller_with(quota)
    }

    fn spend(bill: &Bill, tokens: u64) {
        let cost = Cost { embedded_tokens: tokens, ..Cost::default() };
        bill.account().ledger().add_aside(cost);
    }

    #[tokio::test]
    async fn what_is_spent_is_charged_once_whether_it_is_settled_or_left() {
        let caller = caller(1.0);
        let mut bill = Bill::open(&caller, Budget::default());
        spend(&bill, 1000);
        bill.settle().await;
        let wait = caller.has_tokens().await.unwrap_err().retry_after().unwrap();
        bill.settle().await;
        spend(&bill, 1000);
        drop(bill);
        let charged = async {
            while caller.has_tokens().await.unwrap_err().retry_after().unwrap() <= wait {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), charged).await.unwrap();
        let after = caller.has_tokens().await.unwrap_err().retry_after().unwrap();
        assert!(after <= wait + Duration::from_secs(1000), "{wait:?}, then {after:?}");
    }
}
