//! Trust: a GPU embeds and scores only after it has computed what the processor computes.
//!
//! Kernels of a GPU are compiled where it is, for its driver, from code that no test of ours has
//! run there. One that is wrong does not fail: it returns vectors that look like any other. So an
//! encoder that was loaded on a GPU first reads a few made-up texts, on both devices. What the
//! processor computed is kept, so that a GPU that failed later can be checked again.

use crate::engine::{Engine, Scratch, Tokens};
use crate::pooling::Pooling;
use crate::route::Route;
use crate::{DeviceChoice, Error, Precision};

/// Numbers of tokens of the texts: shorter than a tile of a kernel, of no round length, and longer
/// than several tiles.
const LENGTHS: [usize; 6] = [1, 3, 11, 40, 64, 130];
/// Least cosine of two vectors of the same text. Rounding to bfloat16 in all layers costs less than
/// 0.005; a wrong kernel costs 0.1 and more.
const LEAST_COSINE: f32 = 0.98;

/// Model as a text sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of token ids.
    pub(crate) vocabulary: usize,
    /// Maximum number of tokens of a text.
    pub(crate) max_tokens: usize,
    /// Whether tokens have two types.
    pub(crate) has_types: bool,
}

/// What an engine on a GPU has to compute. An engine on the processor is trusted without.
pub(crate) struct Trust(Option<Expected>);

/// Texts, and what the processor computed for them.
struct Expected {
    /// Token ids of each text.
    texts: Vec<Vec<u32>>,
    has_types: bool,
    /// Vectors `[hidden]` of all texts, pooled in one way, and behind them in another.
    vectors: Vec<Vec<f32>>,
}

impl Trust {
    /// Checks that the engine of `route` computes what an engine computes that `load` loads for the
    /// processor, if `route` leads to a GPU. Holds both for that long.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if their vectors differ or a device fails, and the errors of
    /// `load`.
    pub(crate) fn earn(
        route: Route,
        engine: &Engine,
        limits: Limits,
        load: impl FnOnce(Route) -> Result<Engine, Error>,
    ) -> Result<Self, Error> {
        let trust = match route {
            Route::Packed(_) | Route::Burn(DeviceChoice::Cpu, _) => Self(None),
            Route::Burn(_, _) => {
                let exact = load(Route::Burn(DeviceChoice::Cpu, Precision::Float32))?;
                Self(Some(Expected::of(&exact, limits)?))
            }
        };
        trust.check(engine)?;
        Ok(trust)
    }

    /// Checks that `engine`, the one that has earned the trust, still computes the same. Computes
    /// nothing on a processor.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if it does not, or if the device fails.
    pub(crate) fn check(&self, engine: &Engine) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |expected| expected.compare(engine))
    }
}

impl Expected {
    fn of(exact: &Engine, limits: Limits) -> Result<Self, Error> {
        let texts = LENGTHS.iter().map(|&length| text(length, limits)).collect();
        let mut expected = Self { texts, has_types: limits.has_types, vectors: Vec::new() };
        expected.vectors = pooled(exact, &expected.tokens())?;
        Ok(expected)
    }

    fn tokens(&self) -> Vec<Tokens<'_>> {
        let tokens = self.texts.iter().map(|ids| Tokens {
            ids,
            second_type_from: if self.has_types { ids.len() / 2 } else { ids.len() },
        });
        tokens.collect()
    }

    fn compare(&self, engine: &Engine) -> Result<(), Error> {
        let tokens = self.tokens();
        let together = pooled(engine, &tokens)?;
        let mut alone = vec![Vec::new(); self.vectors.len()];
        for (index, text) in tokens.iter().enumerate() {
            let vectors = pooled(engine, std::slice::from_ref(text))?;
            for (kind, vector) in vectors.into_iter().enumerate() {
                alone[kind * tokens.len() + index] = vector;
            }
        }
        for (how, found) in [("together", together), ("alone", alone)] {
            for (index, (found, expected)) in found.iter().zip(&self.vectors).enumerate() {
                let cosine = cosine(found, expected);
                if cosine.is_nan() || cosine < LEAST_COSINE {
                    let length = tokens[index % tokens.len()].ids.len();
                    let reason = format!(
                        "it computes other vectors than the processor; expected a cosine of at \
                         least {LEAST_COSINE}, found {cosine:.3} (tokens: {length}, read {how}); \
                         update its driver, or set the device to `cpu`"
                    );
                    return Err(Error::Device { reason });
                }
            }
        }
        Ok(())
    }
}

/// Returns the vectors of `texts`, pooled in one way, and behind them in another.
fn pooled(engine: &Engine, texts: &[Tokens<'_>]) -> Result<Vec<Vec<f32>>, Error> {
    let scratch = &mut Scratch::default();
    let mut vectors = engine.pooled(texts, Pooling::Mean, scratch)?;
    vectors.extend(engine.pooled(texts, Pooling::Cls, scratch)?);
    Ok(vectors)
}

/// Returns a text of made-up tokens, at most as long as the model reads.
fn text(length: usize, limits: Limits) -> Vec<u32> {
    let length = length.min(limits.max_tokens);
    // Steps of a prime visit the whole vocabulary.
    (1..=length).map(|place| ((place * 7919 + length) % limits.vocabulary) as u32).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

#[cfg(test)]
mod tests {
    use clew_testkit::write_tiny_bert;

    use super::*;
    use crate::folder::ModelFolder;

    const CPU: Route = Route::Burn(DeviceChoice::Cpu, Precision::Float32);
    const LIMITS: Limits = Limits { vocabulary: 40, max_tokens: 60, has_types: false };

    fn engine(seed: u64) -> Engine {
        let folder = tempfile::tempdir().unwrap();
        write_tiny_bert(folder.path(), seed).unwrap();
        Engine::load(CPU, &ModelFolder::open(folder.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_device_is_trusted_only_if_it_computes_what_the_processor_computes() {
        let trust = Trust(Some(Expected::of(&engine(7), LIMITS).unwrap()));
        trust.check(&engine(7)).unwrap();
        for _ in 0..2 {
            let error = trust.check(&engine(8)).unwrap_err().to_string();
            assert!(error.contains("other vectors than the processor"), "{error}");
        }
        trust.check(&engine(7)).unwrap();
    }

    #[test]
    fn texts_are_no_longer_than_the_model_reads_and_of_its_tokens() {
        for length in LENGTHS {
            let text = text(length, LIMITS);
            assert_eq!(text.len(), length.min(LIMITS.max_tokens));
            assert!(text.iter().all(|id| (*id as usize) < LIMITS.vocabulary));
        }
    }

    #[test]
    fn only_a_gpu_is_compared() {
        let engine = engine(7);
        let never = |_| panic!("nothing is loaded");
        let trust = Trust::earn(CPU, &engine, LIMITS, never).unwrap();
        assert!(trust.0.is_none());
        trust.check(&engine).unwrap();
    }
}
