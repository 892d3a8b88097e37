//! Acts: steps of judgement by a model, and the cutting of their input to the model's window.

use clew_core::{Error, ErrorKind, Generator, ReplyFormat};

use super::material::Passage;
use super::prompt::{PromptFile, Rendered, render};
use super::reply::Reply;
use super::unreadable::UnreadableReply;

/// A step of judgement with its input.
///
/// An act is plain data. It is cut to fit before the call and parses its own reply, so a reply can
/// refer only to what the model was shown.
pub trait Act: Clone + Send + Sync {
    /// Meaning of the model's reply.
    type Output: Send;

    /// Returns the prompt of the act.
    fn prompt(&self) -> PromptFile;

    /// Returns the values of the prompt's placeholders.
    fn values(&self) -> Vec<(&'static str, String)>;

    /// Returns the parts that may be cut to fit the model's window, the least important first.
    fn cuts(&mut self) -> Vec<Cut<'_>>;

    /// Returns the format that the reply is requested in. [`Self::parse`] accepts more.
    fn format(&self) -> ReplyFormat;

    /// Returns the maximum number of tokens of the reply.
    fn max_tokens(&self) -> u32;

    /// Parses `reply`.
    ///
    /// # Errors
    /// Returns [`UnreadableReply`] if the meaning of the reply is not clear. Nothing is guessed.
    fn parse(&self, reply: Reply<'_>) -> Result<Self::Output, UnreadableReply>;
}

/// A part of an act that may be cut.
#[derive(Debug)]
pub enum Cut<'a> {
    /// Texts that must all stay. The longest are cut at their ends, to a common length.
    Longest(Vec<&'a mut String>),
    /// Passages, best first. The last ones are dropped, then the end of the first is cut.
    Passages(&'a mut Vec<Passage>),
    /// Texts, oldest first. The oldest are dropped.
    Oldest(&'a mut Vec<String>),
    /// Texts, best first. The last ones are dropped.
    Last(&'a mut Vec<String>),
}

/// Maximum number of bytes of a token that is assumed for any tokenizer. Longer texts are cut
/// without counting tokens.
const MAX_BYTES_PER_TOKEN: usize = 16;
/// Number of tokens that a chat template adds to a conversation of two messages, rounded up
/// generously.
const TEMPLATE_TOKENS: u32 = 32;
/// Maximum number of times that a prompt is cut. Each cut removes an eighth more than the estimated
/// excess, so a few suffice.
const MAX_CUTS: usize = 64;

/// Cuts `act` until its prompt and reply fit the window of `generator`. Returns the prompt and its
/// number of tokens.
///
/// The parts are cut in the order that the act gives, each only when the one before has nothing
/// left. The number of bytes to cut is estimated from the prompt's mean token length; the result is
/// counted.
///
/// # Errors
/// Returns [`ErrorKind::InvalidInput`] with the reason `PROMPT_TOO_LONG` if the parts that may not
/// be cut are too long.
pub(crate) fn fit<A: Act>(
    act: &mut A,
    generator: &dyn Generator,
) -> Result<(Rendered, u32), Error> {
    let window = generator.identity().window;
    let room = window.saturating_sub(act.max_tokens()).saturating_sub(TEMPLATE_TOKENS);
    let most_bytes = room as usize * MAX_BYTES_PER_TOKEN;
    for _ in 0..MAX_CUTS {
        let rendered = render(act.prompt(), &act.values())?;
        let bytes = rendered.bytes();
        let excess = if bytes > most_bytes {
            bytes - most_bytes
        } else {
            let count = |text: &str| generator.count_tokens(text);
            let tokens = count(&rendered.system).saturating_add(count(&rendered.user));
            if tokens <= room {
                return Ok((rendered, tokens));
            }
            let share = f64::from(tokens - room) / f64::from(tokens);
            (bytes as f64 * share * 1.125).ceil() as usize + 1
        };
        let mut left = excess;
        for cut in act.cuts() {
            left = left.saturating_sub(cut.give_up(left));
        }
        if left == excess {
            break;
        }
    }
    let message = format!("the prompt does not fit the model's window of {window} tokens");
    Err(Error::new(ErrorKind::InvalidInput, "PROMPT_TOO_LONG", message))
}

impl Cut<'_> {
    /// Removes at least `bytes`, or everything there is. Returns the number of bytes removed.
    fn give_up(self, bytes: usize) -> usize {
        match self {
            _ if bytes == 0 => 0,
            Self::Longest(texts) => shorten_longest(texts, bytes),
            Self::Passages(passages) => {
                let mut given = 0;
                while passages.len() > 1 && given < bytes {
                    given += passages.pop().map_or(0, |passage| passage.bytes());
                }
                let rest = bytes.saturating_sub(given);
                let first = passages.first_mut().map(|passage| &mut passage.text);
                given + shorten_longest(first.into_iter().collect(), rest)
            }
            Self::Oldest(texts) => {
                let (gone, given) = enough(texts.iter(), bytes);
                texts.drain(..gone);
                given
            }
            Self::Last(texts) => {
                let (gone, given) = enough(texts.iter().rev(), bytes);
                texts.truncate(texts.len() - gone);
                given
            }
        }
    }
}

/// Returns how many of `texts`, from the first, have to be dropped to remove at least `bytes`, or
/// all of them, and how many bytes that removes.
fn enough<'a>(texts: impl Iterator<Item = &'a String>, bytes: usize) -> (usize, usize) {
    let (mut gone, mut given) = (0, 0);
    for text in texts {
        if given >= bytes {
            break;
        }
        // A numbered line takes more bytes than its text, so even an empty one counts.
        given += text.len() + 1;
        gone += 1;
    }
    (gone, given)
}

/// Cuts the longest of `texts` at their ends, so that together they lose at least `bytes`, or
/// everything. Returns the number of bytes removed.
fn shorten_longest(texts: Vec<&mut String>, bytes: usize) -> usize {
    let mut lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
    lengths.sort_unstable();
    let total: usize = lengths.iter().sum();
    let keep = total.saturating_sub(bytes);
    // The largest common length at which at most `keep` bytes remain.
    let mut level = 0;
    let mut shorter = 0;
    for (index, length) in lengths.iter().enumerate() {
        let share = keep.saturating_sub(shorter) / (lengths.len() - index);
        level = share.min(*length);
        if share < *length {
            break;
        }
        shorter += length;
    }
    let mut given = 0;
    for text in texts {
        if text.len() > level {
            let end = end_of_word(text, level);
            given += text.len() - end;
            text.truncate(end);
        }
    }
    given
}

/// Returns the length to which `text` may be cut to have at most `bytes`: after a word, if one ends
/// within the last 64 bytes.
pub(crate) fn end_of_word(text: &str, bytes: usize) -> usize {
    let end = text.floor_char_boundary(bytes);
    let (head, tail) = text.split_at(end);
    if !tail.starts_with(|c: char| !c.is_whitespace()) {
        return head.trim_end().len();
    }
    match head.rfind(char::is_whitespace) {
        Some(blank) if end - blank <= 64 => head[..blank].trim_end().len(),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_texts_are_cut_to_a_common_length() {
        let mut texts = ["ab".to_owned(), "c".repeat(100), "d".repeat(50)];
        let given = shorten_longest(texts.iter_mut().collect(), 100);
        assert_eq!(texts.each_ref().map(String::len), [2, 25, 25]);
        assert_eq!(given, 100);
        assert_eq!(shorten_longest(texts.iter_mut().collect(), 1000), 52);
        assert_eq!(shorten_longest(Vec::new(), 5), 0);
        let mut words = ["one two three".to_owned()];
        shorten_longest(words.iter_mut().collect(), 4);
        assert_eq!(words[0], "one two");
        assert_eq!(end_of_word("one two", 3), 3);
        assert_eq!(end_of_word("one two", 5), 3);
        assert_eq!(end_of_word("京都", 4), 3);
    }

    #[test]
    fn the_oldest_and_the_worst_go_first() {
        let mut texts = vec!["old".to_owned(), "new".to_owned()];
        assert_eq!(Cut::Oldest(&mut texts).give_up(2), 4);
        assert_eq!(texts, ["new"]);
        let mut texts = vec!["best".to_owned(), "good".to_owned(), "bad".to_owned()];
        assert_eq!(Cut::Last(&mut texts).give_up(5), 9);
        assert_eq!(texts, ["best"]);
        assert_eq!(Cut::Last(&mut texts).give_up(100), 5);
        assert!(texts.is_empty());
        let passage = |text: &str| Passage { text: text.to_owned(), ..Passage::default() };
        let mut passages = vec![passage("best one"), passage("worst")];
        assert_eq!(Cut::Passages(&mut passages).give_up(8), 10);
        assert_eq!(passages, [passage("best")]);
        assert_eq!(Cut::Passages(&mut passages).give_up(0), 0);
    }
}
