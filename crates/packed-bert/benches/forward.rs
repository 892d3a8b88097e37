//! Measures tokens per second of one thread at the shape of MiniLM-L6, for each kernel that this
//! machine has.

use std::hint::black_box;

use clew_packed_bert::{Config, Kernel, PackedBert, Workspace};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const MINI_LM_L6: Config = Config {
    vocabulary: 30_522,
    hidden: 384,
    layers: 6,
    heads: 12,
    intermediate: 1536,
    positions: 512,
    token_types: 2,
    layer_norm_epsilon: 1e-12,
};

/// Batches as (sequences, tokens in each): a full batch, long texts, short texts, and a single
/// query.
const BATCHES: [(usize, usize); 4] = [(32, 128), (32, 256), (32, 16), (1, 16)];

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward");
    group.sample_size(10);
    for kernel in Kernel::ALL {
        if !kernel.is_supported() {
            eprintln!("kernel {kernel} is not supported by this processor and was not measured");
            continue;
        }
        let model = PackedBert::try_new(MINI_LM_L6, kernel, &mut small_weights)
            .expect("the source has every tensor");
        let mut workspace = Workspace::default();
        let mut hidden_states = Vec::new();
        for (count, length) in BATCHES {
            let tokens: Vec<Vec<u32>> = (0..count).map(|index| sequence(index, length)).collect();
            let sequences: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
            group.throughput(Throughput::Elements((count * length) as u64));
            group.bench_function(
                BenchmarkId::new(kernel.to_string(), format!("{count}x{length}")),
                |bencher| {
                    bencher.iter(|| {
                        let result = model.forward(
                            black_box(&sequences),
                            &mut workspace,
                            &mut hidden_states,
                        );
                        result.expect("the batch is valid");
                    });
                },
            );
        }
    }
    group.finish();
}

/// Returns token ids spread over the vocabulary, so that the embedding table is read as a text
/// would read it.
fn sequence(index: usize, length: usize) -> Vec<u32> {
    (0..length)
        .map(|position| ((index * 7919 + position * 104_729) % MINI_LM_L6.vocabulary) as u32)
        .collect()
}

/// Returns weights of both signs within 0.05. The speed does not depend on them, as long as sums
/// neither overflow nor vanish.
fn small_weights(name: &str) -> Option<Vec<f32>> {
    let Config { vocabulary, hidden, intermediate, positions, token_types, .. } = MINI_LM_L6;
    let length = match name {
        "embeddings.word_embeddings.weight" => vocabulary * hidden,
        "embeddings.position_embeddings.weight" => positions * hidden,
        "embeddings.token_type_embeddings.weight" => token_types * hidden,
        name if name.ends_with("intermediate.dense.bias") => intermediate,
        name if name.contains("LayerNorm") || name.ends_with("bias") => hidden,
        name if name.contains("attention") => hidden * hidden,
        _ => hidden * intermediate,
    };
    Some((0..length).map(|index| ((index * 2_654_435_761) % 1000) as f32 * 1e-4 - 0.05).collect())
}

criterion_group!(benches, forward);
criterion_main!(benches);
