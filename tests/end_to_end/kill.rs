//! `kill -9` at random moments: what was acknowledged is there, whole and once.

mod conversing;
mod ingesting;
mod replacing;

use fastrand::Rng;

/// Kills of each test while a server works.
const KILLS: usize = 30;

/// The run's random numbers. Their seed is printed; `END_TO_END_SEED` plays a run again, as far as
/// the operating system's scheduling allows.
pub fn random() -> Rng {
    let seed = match std::env::var("END_TO_END_SEED") {
        Ok(seed) => seed.parse().expect("END_TO_END_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("END_TO_END_SEED={seed}");
    Rng::with_seed(seed)
}
