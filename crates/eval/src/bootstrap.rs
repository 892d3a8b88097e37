//! Bootstrap intervals: how much an average would differ for other questions of the same kind.

const RESAMPLES: usize = 1000;

/// Share of resampled means that are left out on each side of the interval.
const TAIL: f64 = 0.025;

/// Returns 95 % intervals of the column means of `rows` by the percentile bootstrap (Efron and
/// Tibshirani, "An Introduction to the Bootstrap", chapter 13). Rows are questions, drawn with
/// replacement 1000 times; columns are metrics and share the draws. The same seed gives the same
/// intervals.
///
/// Returns nothing if there are no rows.
pub(crate) fn intervals_95(rows: &[Vec<f64>], seed: u64) -> Vec<[f64; 2]> {
    let Some(columns) = rows.first().map(Vec::len) else { return Vec::new() };
    let mut random = SplitMix64(seed);
    let mut means = vec![Vec::with_capacity(RESAMPLES); columns];
    let mut sums = vec![0.0; columns];
    for _ in 0..RESAMPLES {
        sums.fill(0.0);
        for _ in 0..rows.len() {
            for (sum, value) in sums.iter_mut().zip(&rows[random.below(rows.len())]) {
                *sum += value;
            }
        }
        for (means, sum) in means.iter_mut().zip(&sums) {
            means.push(sum / rows.len() as f64);
        }
    }
    means.into_iter().map(middle).collect()
}

/// Returns the 95 % interval of a statistic that is no mean, by the same bootstrap. `statistic` is
/// given how often each of `n` questions was drawn. Draws for which it is not defined do not count.
///
/// Returns `None` if it is not defined for any draw.
pub(crate) fn interval_95_of(
    n: usize,
    seed: u64,
    mut statistic: impl FnMut(&[u32]) -> Option<f64>,
) -> Option<[f64; 2]> {
    let mut random = SplitMix64(seed);
    let mut drawn = vec![0; n];
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill(0);
        for _ in 0..n {
            drawn[random.below(n)] += 1;
        }
        values.extend(statistic(&drawn));
    }
    (!values.is_empty()).then(|| middle(values))
}

/// Returns the values of which a share of [`TAIL`] is below or above.
fn middle(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let left_out = (values.len() as f64 * TAIL) as usize;
    [values[left_out], values[values.len() - 1 - left_out]]
}

/// Random number generator SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014): good enough for drawing indices, and the same on every machine and in
/// every version.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `bound`. Its bias is below `bound` / 2^64, so no draw is rejected.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        let mut random = SplitMix64(1_234_567);
        let sequence = [(); 3].map(|()| random.next());
        assert_eq!(
            sequence,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_intervals() {
        let rows: Vec<_> = (0..40).map(|i| vec![f64::from(i % 3), f64::from(i)]).collect();
        assert_eq!(intervals_95(&rows, 1), intervals_95(&rows, 1));
        assert_ne!(intervals_95(&rows, 1), intervals_95(&rows, 2));
    }

    #[test]
    fn questions_that_agree_leave_no_doubt() {
        assert_eq!(intervals_95(&vec![vec![0.25]; 7], 0), [[0.25, 0.25]]);
        assert_eq!(intervals_95(&[], 0), Vec::<[f64; 2]>::new());
    }

    #[test]
    fn a_mean_as_a_statistic_has_the_interval_of_the_mean() {
        let rows: Vec<_> = (0..50).map(|i| vec![f64::from(i * i % 7)]).collect();
        let mean = |drawn: &[u32]| {
            let sum: f64 = drawn.iter().zip(&rows).map(|(n, row)| f64::from(*n) * row[0]).sum();
            Some(sum / 50.0)
        };
        // The draws are the same; only the order of the additions differs.
        let of_mean = intervals_95(&rows, 5)[0];
        let of_statistic = interval_95_of(50, 5, mean).unwrap();
        for (one, other) in of_mean.iter().zip(of_statistic) {
            assert!((one - other).abs() < 1e-9, "{one} and {other}");
        }
        assert_eq!(interval_95_of(0, 5, |_| None), None);
    }

    #[test]
    fn the_interval_is_that_of_the_normal_approximation() {
        // 100 of 400 are right: the standard error is sqrt(0.25 * 0.75 / 400) = 0.02165.
        let rows: Vec<_> = (0..400).map(|i| vec![f64::from(u8::from(i % 4 == 0))]).collect();
        let [[low, high]] = intervals_95(&rows, 3)[..] else { panic!() };
        // The 2.5 % quantile of 1000 normal draws has a standard error of sqrt(0.025 * 0.975 /
        // 1000) / 0.0584 = 0.085 standard deviations, here 0.0018; 0.008 leaves room for the steps
        // of 1/400 as well.
        assert!((low - (0.25 - 1.96 * 0.02165)).abs() < 0.008, "{low}");
        assert!((high - (0.25 + 1.96 * 0.02165)).abs() < 0.008, "{high}");
    }

    #[test]
    fn intervals_cover_the_true_mean_about_as_often_as_they_say() {
        let mut random = SplitMix64(7);
        let trials = 200;
        let covered = (0..trials)
            .filter(|&trial| {
                let draw = |_| vec![f64::from(u8::from(random.below(10) < 6))];
                let rows: Vec<_> = (0..100).map(draw).collect();
                let [[low, high]] = intervals_95(&rows, trial)[..] else { panic!() };
                (low..=high).contains(&0.6)
            })
            .count();
        // 95 % of 200, with a standard error of 3; bootstrap intervals of 100 draws are slightly
        // narrow.
        assert!((178..=199).contains(&covered), "{covered}");
    }
}
