//! Trust: a GPU embeds and scores only after it has computed what the processor computes.
//!
//! Kernels of a GPU are compiled where it is, for its driver, from code that no test of ours has
//! run there. One that is wrong does not fail: it returns vectors that look like any other. So an
//! encoder that was loaded on a GPU first reads a few made-up texts, on both devices.

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

/// Checks that the engine of `route` computes what an engine computes that `load` loads for the
/// processor, if `route` leads to a GPU. Holds both for that long.
///
/// # Errors
/// Returns [`Error::Device`] if their vectors differ or a device fails, and the errors of `load`.
pub(crate) fn check(
    route: Route,
    engine: &Engine,
    limits: Limits,
    load: impl FnOnce(Route) -> Result<Engine, Error>,
) -> Result<(), Error> {
    match route {
        Route::Packed(_) | Route::Burn(DeviceChoice::Cpu, _) => Ok(()),
        Route::Burn(_, _) => {
            let exact = load(Route::Burn(DeviceChoice::Cpu, Precision::Float32))?;
            compare(engine, &exact, limits)
        }
    }
}

fn compare(engine: &Engine, exact: &Engine, limits: Limits) -> Result<(), Error> {
    let texts: Vec<Vec<u32>> = LENGTHS.iter().map(|&length| text(length, limits)).collect();
    let tokens: Vec<Tokens<'_>> = texts
        .iter()
        .map(|ids| Tokens {
            ids,
            second_type_from: if limits.has_types { ids.len() / 2 } else { ids.len() },
        })
        .collect();
    let pooled = |engine: &Engine, texts: &[Tokens<'_>]| {
        let scratch = &mut Scratch::default();
        let mut vectors = engine.pooled(texts, Pooling::Mean, scratch)?;
        vectors.extend(engine.pooled(texts, Pooling::Cls, scratch)?);
        Ok::<_, Error>(vectors)
    };
    let expected = pooled(exact, &tokens)?;
    let together = pooled(engine, &tokens)?;
    let mut alone = vec![Vec::new(); expected.len()];
    for (index, text) in tokens.iter().enumerate() {
        let vectors = pooled(engine, std::slice::from_ref(text))?;
        for (kind, vector) in vectors.into_iter().enumerate() {
            alone[kind * tokens.len() + index] = vector;
        }
    }
    for (how, found) in [("together", together), ("alone", alone)] {
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let cosine = cosine(found, expected);
            if cosine.is_nan() || cosine < LEAST_COSINE {
                let length = texts[index % texts.len()].len();
                let reason = format!(
                    "it computes other vectors than the processor; expected a cosine of at least \
                     {LEAST_COSINE}, found {cosine:.3} (tokens: {length}, read {how}); update its \
                     driver, or set the device to `cpu`"
                );
                return Err(Error::Device { reason });
            }
        }
    }
    Ok(())
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
        let exact = engine(7);
        compare(&engine(7), &exact, LIMITS).unwrap();
        let error = compare(&engine(8), &exact, LIMITS).unwrap_err().to_string();
        assert!(error.contains("other vectors than the processor"), "{error}");
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
        check(CPU, &engine, LIMITS, never).unwrap();
    }
}
