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
const NODES: usize = 30;
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
    let mut longest = (Duration::ZERO, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let _repeat = Repeat(seed);
        let mut world = troubled(|_| {}, seed);
        heal(&mut world);
        longest = longest.max((world.longest_absence, seed));
    }
    let (longest, seed) = longest;
    println!("{count} seeds; the longest absence of an owner was {longest:?}, with seed {seed}");
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

/// What happened in a part of a run.
struct Part {
    what: &'static str,
    lasted: Duration,
    absence: Duration,
    moved: usize,
    commands: f64,
    leases: f64,
    records: f64,
}

/// Lets something happen to a cluster at rest, and waits until it is at rest again.
fn part(world: &mut World, what: &'static str, faults: &[(u64, Fault)]) -> Part {
    let (start, asked, moves) = (world.now, world.asked, world.moves);
    world.longest_absence = Duration::ZERO;
    for (after, fault) in faults {
        world.plan(start + Duration::from_secs(*after), *fault);
    }
    let last = faults.iter().map(|(after, _)| *after).max().unwrap_or(0);
    world.run(Duration::from_secs(last + 20));
    for _ in 0..600 {
        if world.is_at_rest() {
            break;
        }
        world.run(Duration::from_secs(1));
    }
    assert!(world.is_at_rest(), "{what}: the shards are not where they are placed");
    let lasted = world.now - start;
    let asked = world.asked.since(asked);
    let rate = |count: u64| count as f64 / lasted.as_secs_f64();
    Part {
        what,
        lasted,
        absence: world.longest_absence,
        moved: world.moves - moves,
        commands: rate(asked.commands),
        leases: rate(asked.leases),
        records: rate(asked.records),
    }
}

fn placed_on(world: &World, id: &NodeId) -> usize {
    let is_there =
        |shard: &&_| placement::owner(shard, world.healthy()).is_some_and(|o| o.id == *id);
    world.wanted().iter().filter(is_there).count()
}

#[test]
fn a_large_cluster_moves_what_it_must_and_asks_redis_for_little_else() {
    let nodes = variable("CLEW_SIMULATION_NODES").map_or(NODES, |nodes| nodes as usize);
    let seed = variable("CLEW_SIMULATION_SEED").unwrap_or(0);
    let _repeat = Repeat(seed);
    let (shards, began) = (nodes * SHARDS_PER_NODE, Instant::now());
    let mut world = World::new(Setting::of(seed, nodes, 1, shards));
    world.start_settled();
    let rest = part(&mut world, "at rest", &[]);
    assert_eq!(rest.moved, 0);
    let join = part(&mut world, "a retriever joins", &[(0, Fault::Start(nodes))]);
    // Nothing moves but what belongs to the node that came, and that is its share but for chance.
    assert_eq!(join.moved, placed_on(&world, &world::name(nodes)));
    let share = shards as f64 / (nodes + 1) as f64;
    let chance = 4.0 * share.sqrt();
    assert!((join.moved as f64 - share).abs() <= chance, "{} moved, of {share}", join.moved);
    let parts = [
        rest,
        join,
        part(&mut world, "one crashes", &[(0, Fault::Crash(0))]),
        part(&mut world, "it comes back", &[(0, Fault::Start(0))]),
        part(&mut world, "one is restarted", &[(0, Fault::Crash(1)), (2, Fault::Start(1))]),
        part(&mut world, "one sleeps 30 s", &[(0, Fault::Pause(2)), (30, Fault::Resume(2))]),
        part(&mut world, "one drains", &[(0, Fault::Drain(nodes - 1))]),
        part(&mut world, "Redis away 30 s", &[(0, Fault::RedisStops), (30, Fault::RedisGoesOn)]),
        part(&mut world, "Redis is emptied", &[(0, Fault::RedisIsEmptied)]),
    ];
    println!("{nodes} retrievers, {shards} shards, seed {seed}, in {:?}", began.elapsed());
    println!("a share of the shards is {share:.0}");
    println!(
        "| what happens | at rest after | longest without owner | shards moved | commands/s | leases/s | records/s |"
    );
    for Part { what, lasted, absence, moved, commands, leases, records } in parts {
        let (lasted, absence) = (lasted.as_secs_f64(), absence.as_secs_f64());
        println!(
            "| {what} | {lasted:.0} s | {absence:.1} s | {moved} | {commands:.0} | {leases:.0} | {records:.0} |"
        );
    }
}
