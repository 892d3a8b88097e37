//! Random numbers of a run, which its seed repeats.

use fastrand::Rng;

/// Returns the run's random number generator and prints its seed. `CLEW_TEST_SEED` repeats a run,
/// as far as the operating system's scheduling allows.
pub fn random() -> Rng {
    let seed = match std::env::var("CLEW_TEST_SEED") {
        Ok(seed) => seed.parse().expect("CLEW_TEST_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("CLEW_TEST_SEED={seed}");
    Rng::with_seed(seed)
}
