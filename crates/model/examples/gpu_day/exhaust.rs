//! What happens when a batch does not fit into the device's memory, and after it.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use clew_model::{
    DeviceChoice, EmbeddingModel, EncodedText, ModelOptions, PathChoice, PrecisionChoice, Scratch,
};
use serde_json::json;

use crate::shapes::ENCODER_VOCABULARY;
use crate::{Report, is_dry_run, tokens};

/// Tokens of a text.
const TEXT: usize = 256;
/// Tokens of the first batch, and of one that no GPU of today has room for.
const FIRST: usize = 1 << 18;
const MOST: usize = 1 << 25;

/// Embeds ever larger batches until one fails, and then a small one again.
pub fn measure(device: DeviceChoice, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let (first, most) = if is_dry_run(device) { (TEXT, 2 * TEXT) } else { (FIRST, MOST) };
    let options = ModelOptions {
        device,
        path: PathChoice::Burn,
        precision: PrecisionChoice::Float32,
        batch_tokens: NonZeroUsize::new(most),
        ..ModelOptions::default()
    };
    let model = EmbeddingModel::load(folder, &options)?;
    let text = |ids: &[u32]| EncodedText { ids: ids.to_vec(), truncated: false };
    let small = [text(&tokens(TEXT, ENCODER_VOCABULARY))];
    let expected = model.embed(&small, &mut Scratch::default())?;
    report.take_turn()?;
    let mut size = first;
    while size <= most {
        let ids = tokens(size, ENCODER_VOCABULARY);
        let texts: Vec<EncodedText> = ids.chunks(TEXT).map(text).collect();
        let began = Instant::now();
        let embedded =
            catch_unwind(AssertUnwindSafe(|| model.embed(&texts, &mut Scratch::default())));
        let seconds = began.elapsed().as_secs_f64();
        let failure = match embedded {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(("error", error.to_string())),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().cloned();
                Some(("panic", said.unwrap_or_else(|| "without a text".to_owned())))
            }
        };
        let how = failure.as_ref().map_or("embedded", |(how, _)| how);
        let reason = failure.as_ref().map_or("", |(_, reason)| reason.as_str());
        report.line(json!({
            "tokens": size, "seconds": seconds, "ended": how,
            "reason": reason.chars().take(400).collect::<String>(),
        }))?;
        if failure.is_some() {
            break;
        }
        size *= 2;
    }
    for attempt in 1..=3 {
        let began = Instant::now();
        let again = catch_unwind(AssertUnwindSafe(|| model.embed(&small, &mut Scratch::default())));
        let ended = match again {
            Ok(Ok(found)) if found == expected => "the same vector",
            Ok(Ok(_)) => bail!("the device gave another vector than before"),
            Ok(Err(_)) => "error",
            Err(_) => "panic",
        };
        let seconds = began.elapsed().as_secs_f64();
        report.line(json!({"attempt_after": attempt, "seconds": seconds, "ended": ended}))?;
    }
    Ok(())
}
