//! Tests every kernel that this machine has against a scalar reference, and the invariants of
//! packing.

mod random;
mod reference;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use clew_packed_bert::{
    Config, Error, Kernel, KernelPrecision, PackedBert, Workspace, tensor_names,
};
use proptest::prelude::*;

use random::{Random, Tensors, model, supported_kernels, tensors};

const SMALL: Config = Config {
    vocabulary: 500,
    hidden: 64,
    layers: 2,
    heads: 2,
    intermediate: 160,
    positions: 80,
    token_types: 2,
    layer_norm_epsilon: 1e-12,
};

/// Heads of 32, 64 and 96; feed-forward widths of odd numbers of panels; one, two and three layers.
const SHAPES: [Config; 4] = [
    SMALL,
    Config {
        hidden: 128,
        heads: 2,
        intermediate: 512,
        layers: 3,
        layer_norm_epsilon: 1e-5,
        ..SMALL
    },
    Config { hidden: 96, heads: 1, intermediate: 32, layers: 1, token_types: 1, ..SMALL },
    Config { hidden: 384, heads: 12, intermediate: 1536, layers: 2, ..SMALL },
];

/// Sequence lengths on both sides of tile rows (6, 12, 16), blocks of rows (32), panel columns (16,
/// 32) and pairs of elements, and the whole position table.
const LENGTHS: [usize; 14] = [1, 2, 5, 6, 7, 12, 13, 16, 17, 31, 32, 33, 70, 80];

/// Largest allowed difference from the reference in 32-bit floats.
///
/// States and activations are of order 1. A dot product over `k` terms of order `1 / sqrt(k)`
/// accumulates a random walk of about `sqrt(k)` roundings of `2^-25` relative size, 1e-6 for 1536
/// terms; the approximations of GELU and exponential add 2e-7. A layer has four products in a row
/// and the deepest shape three layers; normalisation keeps the scale; and the largest of 10^5
/// values lies four to five deviations out: 1e-6 * sqrt(12) * 5 is 1.7e-5.
const FLOAT32_DIFFERENCE: f64 = 2e-5;

/// Smallest allowed cosine between a token's state and the reference in bfloat16.
///
/// Rounding to 8 bits is off by at most 2^-9 and by 0.0011 in the root mean square. A product of
/// rounded weights and rounded activations is off by 0.0016 of its norm. Eight such errors per
/// layer through three layers give 0.008, and the cosine of a vector with relative noise r is 1 -
/// r^2 / 2.
const BFLOAT16_COSINE: f64 = 1.0 - 0.008 * 0.008 / 2.0;

fn forward(model: &PackedBert, sequences: &[&[u32]]) -> Vec<f32> {
    let mut hidden_states = Vec::new();
    model
        .forward(sequences, &mut Workspace::default(), &mut hidden_states)
        .expect("the sequences are valid");
    hidden_states
}

fn slices(sequences: &[Vec<u32>]) -> Vec<&[u32]> {
    sequences.iter().map(Vec::as_slice).collect()
}

fn cosine(left: &[f32], right: &[f64]) -> f64 {
    let left = || left.iter().map(|&value| f64::from(value));
    let dot: f64 = left().zip(right).map(|(left, right)| left * right).sum();
    let norms = left().map(|value| value * value).sum::<f64>()
        * right.iter().map(|value| value * value).sum::<f64>();
    dot / norms.sqrt()
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    for (seed, config) in (1..).zip(&SHAPES) {
        let tensors = tensors(config, seed);
        let mut random = Random(seed);
        let sequences: Vec<Vec<u32>> =
            LENGTHS.iter().map(|&length| random.sequence(config, length)).collect();
        let expected: Vec<Vec<f64>> = sequences
            .iter()
            .flat_map(|sequence| reference::encode(config, &tensors, sequence))
            .collect();
        for kernel in supported_kernels() {
            let actual = forward(&model(config, kernel, &tensors), &slices(&sequences));
            check_agreement(config, kernel, &actual, &expected);
        }
    }
}

fn check_agreement(config: &Config, kernel: Kernel, actual: &[f32], expected: &[Vec<f64>]) {
    assert_eq!(actual.len(), expected.len() * config.hidden);
    let pairs = || actual.chunks_exact(config.hidden).zip(expected);
    let cosine = pairs().map(|(actual, expected)| cosine(actual, expected)).fold(1.0, f64::min);
    let differences = pairs().flat_map(|(actual, expected)| {
        actual.iter().zip(expected).map(|(&actual, expected)| (f64::from(actual) - expected).abs())
    });
    // Not `f64::max`, which would ignore a NaN.
    let difference =
        differences.fold(0.0, |largest, next| if next <= largest { largest } else { next });
    let found = format!(
        "{kernel}, hidden {}: difference {difference:.2e}, cosine {cosine:.7}",
        config.hidden
    );
    eprintln!("{found}");
    match kernel.precision() {
        KernelPrecision::Float32 => assert!(difference <= FLOAT32_DIFFERENCE, "{found}"),
        KernelPrecision::BFloat16 => {
            assert!(difference.is_finite() && cosine >= BFLOAT16_COSINE, "{found}")
        }
    }
}

/// One small model per supported kernel.
static MODELS: LazyLock<Vec<PackedBert>> = LazyLock::new(|| {
    let tensors = tensors(&SMALL, 7);
    supported_kernels().map(|kernel| model(&SMALL, kernel, &tensors)).collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Neither the other sequences nor their order nor the cut into groups changes a sequence's
    /// states.
    #[test]
    fn the_states_of_a_sequence_depend_on_it_alone(
        lengths in prop::collection::vec(1..=70_usize, 1..16),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let sequences: Vec<Vec<u32>> = lengths.iter().map(|&length| random.sequence(&SMALL, length)).collect();
        for model in MODELS.iter() {
            let together = forward(model, &slices(&sequences));
            let alone: Vec<f32> = sequences.iter().flat_map(|sequence| forward(model, &[sequence])).collect();
            prop_assert!(together == alone, "{} differs", model.kernel());
        }
    }
}

#[test]
fn a_used_workspace_changes_nothing() {
    let mut random = Random(3);
    let [long, short] = [70, 9].map(|length| random.sequence(&SMALL, length));
    for model in MODELS.iter() {
        let mut workspace = Workspace::default();
        let mut hidden_states = vec![f32::NAN; 3];
        for sequence in [&long, &short, &long] {
            model
                .forward(&[sequence], &mut workspace, &mut hidden_states)
                .expect("the sequence is valid");
            assert_eq!(hidden_states, forward(model, &[sequence]), "{}", model.kernel());
        }
    }
}

#[test]
fn threads_share_a_model() {
    let sequence = Random(4).sequence(&SMALL, 40);
    for model in MODELS.iter() {
        let expected = forward(model, &[&sequence]);
        std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(|| forward(model, &[&sequence])));
            for thread in threads {
                assert_eq!(
                    thread.join().expect("the thread ends well"),
                    expected,
                    "{}",
                    model.kernel()
                );
            }
        });
    }
}

#[test]
fn an_empty_batch_has_no_states() {
    for model in MODELS.iter() {
        assert_eq!(forward(model, &[]), []);
    }
}

#[test]
fn bad_sequences_are_refused_and_leave_the_output_alone() {
    let too_long = vec![1; SMALL.positions + 1];
    let refused: [(&[u32], Error); 3] = [
        (&[], Error::EmptySequence { sequence: 1 }),
        (&too_long, Error::SequenceTooLong { sequence: 1, length: 81, limit: 80 }),
        (&[1, 500], Error::UnknownToken { sequence: 1, position: 1, token: 500, vocabulary: 500 }),
    ];
    for model in MODELS.iter() {
        for (sequence, expected) in &refused {
            let mut hidden_states = vec![1.0, 2.0];
            let result = model.forward(
                &[&[1, 499], sequence],
                &mut Workspace::default(),
                &mut hidden_states,
            );
            assert_eq!(result.as_ref(), Err(expected));
            assert_eq!(hidden_states, [1.0, 2.0]);
        }
    }
}

/// Builds a model for the first supported kernel from tensors that `change` has damaged.
fn load_changed(change: impl FnOnce(&mut Tensors)) -> Option<Result<PackedBert, Error>> {
    let kernel = Kernel::detect(KernelPrecision::Float32)?;
    let mut tensors = tensors(&SMALL, 7);
    change(&mut tensors);
    Some(PackedBert::try_new(SMALL, kernel, &mut |name| tensors.get(name).cloned()))
}

#[test]
fn a_missing_tensor_is_named() {
    for name in tensor_names(&SMALL) {
        let Some(result) = load_changed(|tensors| drop(tensors.remove(&name))) else { return };
        assert_eq!(result.err(), Some(Error::MissingTensor { name }));
    }
}

#[test]
fn a_tensor_of_the_wrong_length_is_named() {
    let name = "encoder.layer.1.output.dense.weight".to_owned();
    let Some(result) =
        load_changed(|tensors| tensors.get_mut(&name).expect("it is there").truncate(100))
    else {
        return;
    };
    assert_eq!(result.err(), Some(Error::TensorLength { name, expected: 160 * 64, actual: 100 }));
}

#[test]
fn the_listed_tensors_are_those_that_are_read() {
    let tensors = tensors(&SMALL, 7);
    for kernel in supported_kernels() {
        let mut read = Vec::new();
        let mut source = |name: &str| {
            read.push(name.to_owned());
            tensors.get(name).cloned()
        };
        PackedBert::try_new(SMALL, kernel, &mut source).expect("the tensors are complete");
        let listed = tensor_names(&SMALL);
        assert_eq!(read.len(), listed.len(), "each is read once");
        assert_eq!(BTreeSet::from_iter(read), BTreeSet::from_iter(listed));
    }
}

#[test]
fn an_unsupported_shape_or_kernel_is_refused_before_anything_is_read() {
    let mut nothing = |name: &str| -> Option<Vec<f32>> { panic!("{name} was read") };
    for kernel in Kernel::ALL {
        let odd = Config { intermediate: 100, ..SMALL };
        let result = PackedBert::try_new(odd, kernel, &mut nothing);
        assert!(
            matches!(result, Err(Error::UnsupportedShape { field: "intermediate", .. })),
            "{result:?}"
        );
        if !kernel.is_supported() {
            let result = PackedBert::try_new(SMALL, kernel, &mut nothing);
            assert_eq!(result.err(), Some(Error::UnsupportedKernel(kernel)));
        }
    }
}

#[test]
fn detection_honours_the_precision() {
    let detected = Kernel::detect(KernelPrecision::Float32);
    assert!(detected.is_none_or(
        |kernel| kernel.is_supported() && kernel.precision() == KernelPrecision::Float32
    ));
    let fastest = Kernel::ALL.into_iter().find(|kernel| kernel.is_supported());
    assert_eq!(Kernel::detect(KernelPrecision::BFloat16), fastest);
}
