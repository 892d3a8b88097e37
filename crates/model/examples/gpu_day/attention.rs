//! Time of the attention of a window over a long memory, by separate kernels and by a fused one.

use std::time::Instant;

use burn::prelude::*;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{DType, Distribution};
use clew_model::{DeviceChoice, open_device};
use serde_json::json;

use crate::{Report, is_dry_run};

/// Heads of keys, queries for each of them, and their width, in a model of 7 billion parameters.
const KV_HEADS: usize = 4;
const GROUP: usize = 7;
const WIDTH: usize = 128;
/// Rows of a window of 2048 tokens with a memory token for every four.
const ROWS: usize = 2560;
/// Slots of the memory.
const SLOTS: [usize; 3] = [8192, 65_536, 262_144];
/// Most scores that separate kernels hold at once.
const MOST_SCORES: usize = 1 << 28;

/// Way to compute attention from queries, keys and values.
type Way<'a> = dyn Fn(&Tensor<4>, &Tensor<4>, &Tensor<4>) -> Tensor<4> + 'a;

pub fn measure(device: DeviceChoice, report: &mut Report) -> anyhow::Result<()> {
    let (rows, slots) = match is_dry_run(device) {
        true => (64, &[256][..]),
        false => (ROWS, &SLOTS[..]),
    };
    let device = open_device(device)?;
    let dtype = if device.supports_dtype(DType::BF16) { DType::BF16 } else { DType::F32 };
    let random = |rows: usize| {
        let normal = Distribution::Normal(0.0, 1.0);
        Tensor::<4>::random([1, KV_HEADS, rows, WIDTH], normal, (&device, dtype))
    };
    let problem = |slots: usize| (random(GROUP * rows), random(slots), random(slots));
    let separate = |queries: &Tensor<4>, keys: &Tensor<4>, values: &Tensor<4>| {
        let [_, _, slots, _] = keys.dims();
        let at_once = GROUP * 512.min(MOST_SCORES / (KV_HEADS * GROUP * slots)).max(1);
        let parts = (0..GROUP * rows).step_by(at_once).map(|begin| {
            let count = at_once.min(GROUP * rows - begin);
            let queries = queries.clone().narrow(2, begin, count);
            let scores = queries.matmul(keys.clone().swap_dims(2, 3)).cast(DType::F32);
            let scores = scores.mul_scalar((WIDTH as f64).powf(-0.5));
            softmax(scores, 3).cast(dtype).matmul(values.clone())
        });
        Tensor::cat(parts.collect(), 2)
    };
    let fused = |queries: &Tensor<4>, keys: &Tensor<4>, values: &Tensor<4>| {
        let options = AttentionModuleOptions::default();
        attention(queries.clone(), keys.clone(), values.clone(), None, None, options)
    };
    let ways: [(&str, &Way<'_>); 2] = [("fused", &fused), ("separate kernels", &separate)];
    let mut differences = Vec::new();
    for &slots in slots {
        let (queries, keys, values) = problem(slots);
        let off = fused(&queries, &keys, &values) - separate(&queries, &keys, &values);
        let off = off.abs().max().try_into_scalar::<f32>();
        differences.push(off.map_err(|error| anyhow::anyhow!("{error}"))?);
    }
    report.take_turn()?;
    for (&slots, off) in slots.iter().zip(differences) {
        let (queries, keys, values) = problem(slots);
        let operations = 4.0 * (KV_HEADS * GROUP * rows * slots * WIDTH) as f64;
        for (how, compute) in ways {
            wait(compute(&queries, &keys, &values))?;
            let began = Instant::now();
            for _ in 0..3 {
                wait(compute(&queries, &keys, &values))?;
            }
            let seconds = began.elapsed().as_secs_f64() / 3.0;
            report.line(json!({
                "how": how, "slots": slots, "rows": rows, "milliseconds": seconds * 1e3,
                "tflops": operations / seconds / 1e12, "off": off,
            }))?;
        }
    }
    Ok(())
}

fn wait(tensor: Tensor<4>) -> anyhow::Result<()> {
    let one = tensor.slice([0..1, 0..1, 0..1, 0..1]).try_into_vec_as::<f32>();
    one.map(drop).map_err(|error| anyhow::anyhow!("{error}"))
}
