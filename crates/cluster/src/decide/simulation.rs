//! Simulation of whole clusters with the real code for membership, leases, placement and decisions.
//!
//! Everything else is simulated, in simulated time: machines whose clocks differ and which stop,
//! sleep and come back, a network that loses, delays and repeats messages, Redis, and the storage.
//! A run follows from its seed alone. [`super::model`] has the same rules in a cluster so small
//! that a failure can be reduced to the events that matter.

mod node;
mod storage;
mod world;

use std::time::{Duration, Instant};

use fastrand::Rng;

use self::world::{Fault, Setting, World};
use crate::decide::modelled_redis::LEASE_TTL;
use crate::member::NodeId;
use crate::placement;

/// Number of small clusters that are simulated unless `CLEW_SIMULATION_SEEDS` says otherwise.
const SEEDS: u64 = 20;
/// Number of retrievers of the measured cluster unless `CLEW_SIMULATION_NODES` says otherwise.
const NODES: u64 = 30;
const SHARDS_PER_NODE: usize = 100;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("expected a number in {name}, got `{value}`")))
}

/// Says how to see a failed run again.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: CLEW_SIMULATION_SEED={}", self.0);
        }
    }
}

/// Returns a small cluster, and lets some minutes of faults happen to it.
fn troubled(change: impl FnOnce(&mut Setting), seed: u64) -> World {
    let mut rng = Rng::with_seed(seed);
    let (nodes, spare) = (rng.usize(2..10), rng.usize(1..4));
    let corpora = rng.usize(1..12);
    let mut setting = Setting::of(rng.u64(..), nodes, spare, corpora * 16);
    change(&mut setting);
    let mut world = World::new(setting);
    if rng.bool() {
        world.start_all();
    } else {
        world.start_settled();
    }
    let mut when = Duration::from_secs(rng.u64(0..40));
    for _ in 0..rng.usize(5..40) {
        when += Duration::from_millis(rng.u64(0..15_000));
        let lasts = when + Duration::from_millis(rng.u64(100..40_000));
        let at = rng.usize(0..nodes + spare);
        let (fault, end) = match rng.u8(0..20) {
            0..2 => (Fault::Crash(at), None),
            2..4 => (Fault::Crash(at), Some(Fault::Start(at))),
            4..8 => (Fault::Start(at), None),
            8..11 => (Fault::Pause(at), Some(Fault::Resume(at))),
            11..14 => (Fault::Cut(at), Some(Fault::Mend(at))),
            14..16 => (Fault::Drain(at), None),
            16 => (Fault::RedisStops, Some(Fault::RedisGoesOn)),
            17 => (Fault::RedisIsEmptied, None),
            _ => {
                let corpus = rng.usize(0..corpora);
                (Fault::CorpusGoes(corpus), Some(Fault::CorpusComes(corpus)))
            }
        };
        world.plan(when, fault);
        if let Some(end) = end {
            world.plan(lasts, end);
        }
    }
    world.run(when);
    world
}

/// Ends all faults and waits until every shard is where it is placed.
fn heal(world: &mut World) {
    world.mend();
    for _ in 0..300 {
        world.run(Duration::from_secs(1));
        if world.is_at_rest() {
            return;
        }
    }
    panic!("the shards are not where they are placed after five minutes without a fault");
}

#[test]
fn whatever_happens_to_a_cluster_no_two_owners_commit_and_no_shard_waits_for_long() {
    let seeds = match variable("CLEW_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("CLEW_SIMULATION_SEEDS").unwrap_or(SEEDS),
    };
    let (mut longest, mut of_bound) = ((Duration::ZERO, 0), 0.0_f64);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let _repeat = Repeat(seed);
        let mut world = troubled(|_| {}, seed);
        heal(&mut world);
        longest = longest.max((world.longest_absence, seed));
        of_bound = of_bound.max(world.of_bound);
    }
    let (longest, seed) = longest;
    println!(
        "{count} seeds; the longest absence of an owner was {longest:?}, with seed {seed}; the \
         bound is {:?} and the wait for a turn, of which at most {:.0} % passed",
        world::longest_absence(),
        100.0 * of_bound,
    );
}

#[test]
fn a_run_follows_from_its_seed() {
    let digest = |seed| troubled(|_| {}, seed).digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// Returns whether some run of such clusters ends with that message.
fn is_noticed(change: fn(&mut Setting), expected: &str) -> bool {
    (0..50).any(|seed| {
        let Err(panic) = std::panic::catch_unwind(|| troubled(change, seed)) else { return false };
        panic.downcast_ref::<String>().is_some_and(|message| message.contains(expected))
    })
}

#[test]
fn two_owners_are_noticed_where_the_storage_has_no_fence() {
    assert!(is_noticed(|setting| setting.is_fenced = false, "two owners commit"));
}

#[test]
fn two_holders_are_noticed_where_nodes_believe_a_lease_for_too_long() {
    assert!(is_noticed(|setting| setting.believed_ttl = LEASE_TTL * 3, "as well"));
}

/// Lets something happen to a cluster at rest, and waits until it is at rest again. Prints what it
/// took, and returns how many shards moved.
fn part(world: &mut World, what: &str, faults: &[(u64, Fault)]) -> usize {
    let (start, asked, moves) = (world.now, world.asked, world.moves);
    world.longest_absence = Duration::ZERO;
    for (after, fault) in faults {
        world.plan(start + Duration::from_secs(*after), *fault);
    }
    let last = faults.iter().map(|(after, _)| *after).max().unwrap_or(0);
    world.run(Duration::from_secs(last + 20));
    let mut patience = 600;
    while !world.is_at_rest() {
        assert!(patience > 0, "{what}: the shards are not where they are placed");
        patience -= 1;
        world.run(Duration::from_secs(1));
    }
    let (lasted, absence) =
        ((world.now - start).as_secs_f64(), world.longest_absence.as_secs_f64());
    let (asked, moved) = (world.asked.since(asked), world.moves - moves);
    let rate = |count: u64| count as f64 / lasted;
    println!(
        "| {what} | {lasted:.0} s | {absence:.1} s | {moved} | {:.0} | {:.0} | {:.0} |",
        rate(asked.commands),
        rate(asked.leases),
        rate(asked.records),
    );
    moved
}

fn placed_on(world: &World, id: &NodeId) -> usize {
    let is_there =
        |shard: &&_| placement::owner(shard, world.healthy()).is_some_and(|owner| owner.id == *id);
    world.wanted().iter().filter(is_there).count()
}

#[test]
fn a_large_cluster_moves_what_it_must_and_asks_redis_for_little_else() {
    let nodes = variable("CLEW_SIMULATION_NODES").unwrap_or(NODES);
    let nodes = usize::try_from(nodes).unwrap();
    let seed = variable("CLEW_SIMULATION_SEED").unwrap_or(0);
    let _repeat = Repeat(seed);
    let (shards, began) = (nodes * SHARDS_PER_NODE, Instant::now());
    let mut world = World::new(Setting::of(seed, nodes, 1, shards));
    world.start_settled();
    let share = shards as f64 / (nodes + 1) as f64;
    println!(
        "{nodes} retrievers, {shards} shards, seed {seed}; a joining one's share is {share:.1}"
    );
    println!(
        "| what happens | at rest | longest absence | moved | commands/s | leases/s | records/s |"
    );
    assert_eq!(part(&mut world, "nothing", &[]), 0);
    let moved = part(&mut world, "a retriever joins", &[(0, Fault::Start(nodes))]);
    // Nothing moves but what belongs to the node that came, and that is its share but for chance.
    assert_eq!(moved, placed_on(&world, &world::name(nodes)));
    assert!((moved as f64 - share).abs() <= 4.0 * share.sqrt(), "{moved} moved, of {share}");
    part(&mut world, "one crashes", &[(0, Fault::Crash(0))]);
    part(&mut world, "it comes back", &[(0, Fault::Start(0))]);
    part(&mut world, "one is restarted", &[(0, Fault::Crash(1)), (2, Fault::Start(1))]);
    part(&mut world, "one sleeps for 30 s", &[(0, Fault::Pause(2)), (30, Fault::Resume(2))]);
    part(&mut world, "one drains", &[(0, Fault::Drain(nodes - 1))]);
    let away = [(0, Fault::RedisStops), (30, Fault::RedisGoesOn)];
    part(&mut world, "Redis is away for 30 s", &away);
    part(&mut world, "Redis is emptied", &[(0, Fault::RedisIsEmptied)]);
    println!(
        "at most {:.0} % of a bound passed; all in {:.0?}",
        100.0 * world.of_bound,
        began.elapsed()
    );
}

#[test]
fn what_joining_nodes_take_is_their_share_on_average() {
    const SHARDS: usize = 4096;
    let (mut moved, mut least) = (0, 0.0);
    for (seed, nodes) in (0_u64..).zip([4, 6, 8, 12, 16, 24]) {
        let _repeat = Repeat(seed);
        let mut world = World::new(Setting::of(seed, nodes, 1, SHARDS));
        world.start_settled();
        moved += part(&mut world, "a retriever joins", &[(0, Fault::Start(nodes))]);
        least += SHARDS as f64 / (nodes + 1) as f64;
    }
    let ratio = moved as f64 / least;
    assert!((0.9..=1.1).contains(&ratio), "{ratio:.3} of the least movement");
}
