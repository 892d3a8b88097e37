//! Usage that the model's server reported for earlier calls, which corrects counts made here.

use std::sync::atomic::{AtomicU64, Ordering};

use clew_core::{ReplyFormat, Usage};

/// Minimum number of prompt tokens reported before they correct the count. Fewer say little about
/// the next prompt.
const ENOUGH_TOKENS: u64 = 2_000;
/// Minimum number of replies in one form before their mean length is expected of the next.
const ENOUGH_REPLIES: u64 = 16;

/// Form of a reply in the building of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Text,
    Entities,
    Relations,
    Questions,
}

impl Form {
    /// Returns the form of a reply of this format. Returns `None` for formats that graphs are not
    /// built from.
    pub(super) fn of(format: &ReplyFormat) -> Option<Self> {
        let schema = match format {
            ReplyFormat::Text => return Some(Self::Text),
            ReplyFormat::Choice(_) => return None,
            ReplyFormat::JsonSchema(schema) => schema,
        };
        let keys = [
            (r#""relations""#, Self::Relations),
            (r#""questions""#, Self::Questions),
            (r#""entities""#, Self::Entities),
        ];
        keys.into_iter().find(|(key, _)| schema.contains(key)).map(|(_, form)| form)
    }
}

/// Usage reported by the model's server for earlier calls.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Tokens of prompts, as counted here and as reported.
    prompts: Pair,
    /// Replies and their reported tokens, by [`Form`].
    replies: [Pair; 4],
}

#[derive(Debug, Default)]
struct Pair {
    counted: AtomicU64,
    told: AtomicU64,
}

impl Told {
    /// Records a call whose prompt was counted as `prompt` tokens and whose reply has this format.
    pub(super) fn note(&self, prompt: u64, format: &ReplyFormat, usage: &Usage) {
        // The usage of a repeated call is reported in total, so it tells nothing about one call.
        if usage.calls <= 1 {
            self.prompts.note(prompt, usage.prompt_tokens);
            if let Some(form) = Form::of(format) {
                self.replies[form as usize].note(1, usage.completion_tokens);
            }
        }
    }

    pub(super) fn prompt_tokens(&self, counted: u64) -> u64 {
        let told = self.prompts.told_for_one(ENOUGH_TOKENS);
        told.map_or(counted, |told| (counted as f64 * told).round() as u64)
    }

    pub(super) fn reply_tokens(&self, format: &ReplyFormat, counted: u64) -> u64 {
        let told = |form: Form| self.replies[form as usize].told_for_one(ENOUGH_REPLIES);
        Form::of(format).and_then(told).map_or(counted, |told| told.round() as u64)
    }
}

impl Pair {
    fn note(&self, counted: u64, told: u64) {
        // A server that reports no usage corrects nothing.
        if told > 0 {
            self.counted.fetch_add(counted, Ordering::Relaxed);
            self.told.fetch_add(told, Ordering::Relaxed);
        }
    }

    /// Returns the reported value per counted unit, once there are enough.
    fn told_for_one(&self, enough: u64) -> Option<f64> {
        let counted = self.counted.load(Ordering::Relaxed);
        let told = self.told.load(Ordering::Relaxed);
        (counted >= enough).then(|| told as f64 / counted as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_corrected_once_enough_was_told() {
        let told = Told::default();
        let usage = |prompt_tokens, completion_tokens| Usage {
            prompt_tokens,
            completion_tokens,
            ..Usage::default()
        };
        let text = &ReplyFormat::Text;
        told.note(1_500, text, &usage(1_000, 50));
        assert_eq!((told.prompt_tokens(300), told.reply_tokens(text, 300)), (300, 300));
        (0..15).for_each(|_| told.note(1_500, text, &usage(1_000, 50)));
        assert_eq!((told.prompt_tokens(300), told.reply_tokens(text, 300)), (200, 50));
        let list = &ReplyFormat::JsonSchema(r#"{"entities": []}"#.to_owned());
        assert_eq!(told.reply_tokens(list, 300), 300, "of lists nothing was told");
        let silent = Told::default();
        silent.note(9_000, text, &usage(0, 0));
        assert_eq!(silent.prompt_tokens(300), 300);
    }
}
