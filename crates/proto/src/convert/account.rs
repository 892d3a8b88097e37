//! Conversions of accounts and spending, which nodes send each other.

use std::time::Duration;

use clew_core::{Budget, Error, Owner, Spent, Violations};

use crate::convert::{duration_to_wire, query};
use crate::query::v1 as wire;

/// Converts an account of `owner`, on which `left` may be spent, for the wire.
pub fn account_to_wire(owner: Owner, left: Budget) -> wire::Account {
    let owner = owner.as_bytes().to_vec().into();
    wire::Account { owner, left: Some(budget_to_wire(left)) }
}

/// Converts an account from the wire: its owner and the budget that is left.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field, as a field of
/// `account`.
pub fn account_from_wire(account: &wire::Account) -> Result<(Owner, Budget), Error> {
    let mut violations = Violations::default();
    let owner = Owner::from_bytes(&account.owner);
    if owner.is_none() {
        let problem =
            format!("expected {} bytes or none, got {}", Owner::BYTES, account.owner.len());
        violations.push("account.owner", problem);
    }
    let left = account.left.unwrap_or_default();
    let left = violations.take(budget_from_wire("account.left", &left));
    violations.into_result()?;
    Ok((owner.unwrap_or_default(), left.unwrap_or_default()))
}

/// Converts a budget for the wire.
pub fn budget_to_wire(budget: Budget) -> wire::Budget {
    let bound = |amount| Some(amount).filter(|amount| *amount != u64::MAX);
    let time = Some(budget.time).filter(|time| *time != Duration::MAX);
    wire::Budget {
        calls: bound(budget.calls),
        tokens: bound(budget.tokens),
        time: time.map(duration_to_wire),
    }
}

/// Converts a budget from the wire, which came in `field`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming its time if that is negative.
pub fn budget_from_wire(field: &str, budget: &wire::Budget) -> Result<Budget, Error> {
    let time = match budget.time {
        None => Duration::MAX,
        Some(time) => Duration::try_from(time).map_err(|_| {
            Error::invalid(format!("{field}.time"), "expected a time that is not less than nothing")
        })?,
    };
    let bound = |amount: Option<u64>| amount.unwrap_or(u64::MAX);
    Ok(Budget { calls: bound(budget.calls), tokens: bound(budget.tokens), time })
}

/// Converts spending for the wire.
pub fn spent_to_wire(spent: &Spent) -> wire::Spent {
    wire::Spent {
        calls: spent.calls,
        prompt_tokens: spent.prompt_tokens,
        completion_tokens: spent.completion_tokens,
        time: Some(duration_to_wire(spent.time)),
        aside: Some(query::cost_to_wire(spent.aside)),
        out_of_budget: spent.is_out_of_budget,
    }
}

/// Converts spending from the wire.
pub fn spent_from_wire(spent: wire::Spent) -> Spent {
    Spent {
        calls: spent.calls,
        prompt_tokens: spent.prompt_tokens,
        completion_tokens: spent.completion_tokens,
        // A negative time is not worth an error.
        time: spent.time.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default(),
        aside: query::cost_from_wire(spent.aside.unwrap_or_default()),
        is_out_of_budget: spent.out_of_budget,
        ..Spent::default()
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Cost;

    use super::*;

    #[test]
    fn accounts_and_what_is_spent_survive_the_wire() {
        let bounded = Budget { calls: 3, tokens: 0, time: Duration::from_millis(1500) };
        for owner in [Owner::of(None), Owner::of(Some("acme"))] {
            for left in [bounded, Budget::UNBOUNDED] {
                let back = account_from_wire(&account_to_wire(owner, left)).unwrap();
                assert_eq!(back, (owner, left));
            }
        }
        let spent = Spent {
            calls: 1,
            prompt_tokens: 2,
            completion_tokens: 3,
            time: Duration::from_millis(4),
            aside: Cost { embedded_tokens: 5, ..Cost::default() },
            is_out_of_budget: true,
            ..Spent::default()
        };
        assert_eq!(spent_from_wire(spent_to_wire(&spent)), spent);
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let time = Some(prost_types::Duration { seconds: -1, nanos: 0 });
        let left = Some(wire::Budget { time, ..Default::default() });
        let bad = wire::Account { owner: vec![1; 31].into(), left };
        let error = account_from_wire(&bad).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["account.owner", "account.left.time"]);
    }
}
