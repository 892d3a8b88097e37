//! Registry of the leases that this process has, and of those it is giving back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::tenure::{Standing, Tenure};
use crate::member::ShardKey;

/// One lease.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) shard: ShardKey,
    /// Value that Redis holds while this process has the lease.
    pub(super) token: String,
    tenure: Mutex<Tenure>,
    pub(super) published: watch::Sender<Standing>,
    /// Sending time of the latest renewal that Redis has answered.
    pub(super) answered: watch::Sender<Option<Instant>>,
    /// Whether nothing of the lease is left in Redis.
    pub(super) returned: watch::Sender<bool>,
}

impl Slot {
    pub(super) fn new(shard: ShardKey, token: String, tenure: Tenure) -> Arc<Self> {
        let published = watch::Sender::new(tenure.standing(Instant::now()));
        let (answered, returned) = (watch::Sender::new(None), watch::Sender::new(false));
        Arc::new(Self { shard, token, tenure: Mutex::new(tenure), published, answered, returned })
    }

    pub(super) fn with_tenure<T>(&self, use_it: impl FnOnce(&mut Tenure) -> T) -> T {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        use_it(&mut self.tenure.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        self.with_tenure(|tenure| tenure.standing(now))
    }

    /// Records that Redis replied to a request sent at `sent`, or that there is nothing left to
    /// ask.
    pub(super) fn answer(&self, sent: Instant) {
        self.answered.send_if_modified(|latest| {
            let is_news = latest.is_none_or(|latest| latest < sent);
            if is_news {
                *latest = Some(sent);
            }
            is_news
        });
    }

    /// Notifies the watchers if the standing has changed.
    pub(super) fn publish(&self, now: Instant) {
        let standing = self.standing(now);
        self.published
            .send_if_modified(|published| std::mem::replace(published, standing) != standing);
    }
}

/// All leases of this process.
#[derive(Debug)]
pub(super) struct Registry {
    /// Whether there is a Redis that must learn of leases that are given back.
    is_told: bool,
    slots: Mutex<Slots>,
    /// Wakes the task that renews and gives back leases.
    pub(super) work: Notify,
    /// Whether a caller waits for a renewal ahead of schedule.
    pub(super) is_awaited: AtomicBool,
    numbers: AtomicU64,
}

#[derive(Debug, Default)]
struct Slots {
    held: BTreeMap<ShardKey, Arc<Slot>>,
    /// Bounded, because each of them was held before and stays for at most one time to live.
    returning: Vec<(Instant, Arc<Slot>)>,
}

impl Registry {
    pub(super) fn new(is_told: bool) -> Self {
        let (slots, numbers) = (Mutex::default(), AtomicU64::new(0));
        Self { is_told, slots, work: Notify::new(), is_awaited: AtomicBool::new(false), numbers }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn holds(&self, shard: &ShardKey) -> bool {
        self.lock().held.contains_key(shard)
    }

    pub(super) fn held(&self) -> Vec<Arc<Slot>> {
        self.lock().held.values().cloned().collect()
    }

    /// Returns whether Redis knows of the leases.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Makes the renewal task renew all leases now.
    pub(super) fn renew_now(&self) {
        self.is_awaited.store(true, Ordering::Release);
        self.work.notify_one();
    }

    pub(super) fn insert(&self, slot: &Arc<Slot>) {
        let earlier = self.lock().held.insert(slot.shard.clone(), Arc::clone(slot));
        if let Some(earlier) = earlier {
            end(&earlier);
            earlier.returned.send_replace(true);
        }
        self.work.notify_one();
    }

    /// Ends a lease that another node has according to Redis.
    pub(super) fn lose(&self, slot: &Arc<Slot>) {
        self.forget(slot);
        end(slot);
        slot.returned.send_replace(true);
    }

    /// Ends a lease, and tells Redis if Redis knows it.
    pub(super) fn take_back(&self, slot: &Arc<Slot>) {
        let was_held = self.forget(slot);
        end(slot);
        if was_held && self.is_told {
            self.lock().returning.push((Instant::now(), Arc::clone(slot)));
            self.work.notify_one();
        } else if was_held {
            slot.returned.send_replace(true);
        }
    }

    /// Returns the leases that Redis must still be told about, with the time at which each was
    /// given back.
    pub(super) fn returning(&self) -> Vec<(Instant, Arc<Slot>)> {
        self.lock().returning.clone()
    }

    /// Records that nothing of `slot` is left in Redis, or that it is about to expire.
    pub(super) fn returned(&self, slot: &Arc<Slot>) {
        self.lock().returning.retain(|(_, other)| !Arc::ptr_eq(other, slot));
        slot.returned.send_replace(true);
    }

    fn forget(&self, slot: &Arc<Slot>) -> bool {
        let mut slots = self.lock();
        let is_held = slots.held.get(&slot.shard).is_some_and(|held| Arc::ptr_eq(held, slot));
        if is_held {
            slots.held.remove(&slot.shard);
        }
        is_held
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(slot: &Slot) {
    let now = Instant::now();
    slot.with_tenure(Tenure::end);
    slot.publish(now);
    slot.answer(now);
}
