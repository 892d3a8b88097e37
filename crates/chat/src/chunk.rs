//! Chunks of a turn: its statements, and the keys that a corpus indexes.

use clew_core::{Attributes, Chunk, Chunking, Document, Error, KeyDesign, Span, SpeakerRole, Turn};
use clew_text::trimmed;

use crate::fact::told;
use crate::key::{made_of, of_key};

/// Maximum number of statements of a turn that become chunks, and maximum size of one in bytes.
const MAX_STATEMENTS: usize = 12;
const MAX_STATEMENT_BYTES: usize = 400;
/// Number of tokens that an encoder adds around its input.
const SPECIAL_TOKENS: usize = 2;

/// Returns what a user states of themselves in a turn ([`crate::facts`]), each statement as a chunk
/// in addition to the `chunks` chunks of the turn's text. Returns nothing for other documents, for
/// turns of other speakers, and for a turn that is a single statement.
///
/// Users mention facts about themselves in passing, for example that they adopted a cat, in a
/// question about ink stains. The vector of the whole turn represents the question. The vector of
/// the statement represents the cat. In conversations of several people turns are short, and
/// separate statements score worse (by 3 points of frac@5 on LoCoMo). LongMemEval uses facts as
/// keys of the turn that they belong to (section 5.3) and merges them into one text. Separate
/// chunks find more (`BENCHMARKS.md`, section Keys). `token_spans` and `window_tokens` describe the
/// encoder, as in [`clew_text::chunk`].
pub fn statement_chunks(
    document: &Document,
    chunks: usize,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    window_tokens: usize,
) -> Vec<Chunk> {
    let turn = Turn::of(document).map(|(_, turn)| turn);
    let Some(turn) = turn.filter(|turn| turn.role == SpeakerRole::User) else { return Vec::new() };
    let heading = document.text.len() - turn.text.len();
    let mut statements: Vec<Chunk> = Vec::new();
    for (sentence, key_text) in told(SpeakerRole::User, "", &turn.text) {
        let sentence = trimmed(&turn.text, sentence);
        let is_all = sentence.len() == turn.text.trim().len();
        let is_known = statements.iter().any(|known| known.key_text == key_text);
        if is_all || is_known || key_text.len() > MAX_STATEMENT_BYTES {
            continue;
        }
        let tokens = token_spans(&key_text).len() + SPECIAL_TOKENS;
        if statements.len() == MAX_STATEMENTS || tokens > window_tokens {
            break;
        }
        statements.push(Chunk {
            ordinal: u32::try_from(chunks + statements.len()).unwrap_or(u32::MAX),
            span: sentence.shifted(heading),
            key_text,
            tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            attributes: Attributes::new(),
        });
    }
    statements
}

/// Returns how many of the chunks of a turn are passages of its text: those up to the first that
/// reaches the end of it. `spans` are those of all its chunks, in order. The chunks that follow are
/// statements ([`statement_chunks`]).
pub fn passages_among(spans: &[Span]) -> usize {
    let end = spans.iter().map(|span| span.end).max();
    spans.iter().position(|span| Some(span.end) == end).map_or(0, |last| last + 1)
}

/// Returns the chunks of a turn whose corpus names the `keys` by which its turns are found
/// ([`clew_core::ChatSettings::keys`]). Each key is indexed by itself and marked by an attribute
/// (LongMemEval, section 5.3). Returns `None` for other documents, and if there are no keys.
///
/// A key that contains what is said is cut like any text, with its expansions as the title. A key
/// that does not contain it, if it is not empty, becomes one chunk, cut to the encoder's window,
/// with the position of the turn's first passage. Expansions that the turn's document has but
/// `keys` does not name are left out. The turn before is always left out.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if a key has an unknown name.
pub fn key_chunks(
    document: &Document,
    keys: &[String],
    chunking: &Chunking,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    window_tokens: usize,
) -> Result<Option<Vec<Chunk>>, Error> {
    let turn = Turn::of(document).map(|(_, turn)| turn).filter(|_| !keys.is_empty());
    let Some(turn) = turn else { return Ok(None) };
    let cut = |title: String| {
        let document = Document { title, ..document.clone() };
        clew_text::chunk(&document, chunking, token_spans, window_tokens)
    };
    let mut all: Vec<Chunk> = Vec::new();
    for name in keys {
        let design: KeyDesign = name.parse()?;
        let made = made_of(&turn, &document.title, &design);
        let holds_said =
            design.holds_value() || (design.holds_users() && turn.role != SpeakerRole::Assistant);
        let chunks = if holds_said {
            cut(made)
        } else {
            alone(&made, &cut(String::new()), token_spans, window_tokens).into_iter().collect()
        };
        for mut chunk in chunks {
            chunk.ordinal = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let (name, key) = of_key(name)?;
            chunk.attributes.insert(name, key.into());
            all.push(chunk);
        }
    }
    Ok(Some(all))
}

/// Returns the text of a key as one chunk with the position of the turn's first passage.
fn alone(
    made: &str,
    passages: &[Chunk],
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    window_tokens: usize,
) -> Option<Chunk> {
    let first = passages.first().filter(|_| !made.trim().is_empty())?;
    let tokens = token_spans(made);
    let most = window_tokens.saturating_sub(SPECIAL_TOKENS);
    let end = tokens.get(most).map_or(made.len(), |span| span.start);
    let key_text = made[..made.floor_char_boundary(end)].trim_end().to_owned();
    let tokens = u32::try_from(tokens.len().min(most) + SPECIAL_TOKENS).unwrap_or(u32::MAX);
    Some(Chunk { key_text, tokens, ..first.clone() })
}

#[cfg(test)]
mod tests {
    use clew_core::{DocumentId, Labels, MediaType, TurnId};
    use proptest::prelude::*;

    use super::*;
    use crate::turn_document;

    fn document(role: SpeakerRole, speaker: &str, text: &str) -> Document {
        let (id, speaker) = ("monday".parse::<DocumentId>().unwrap(), speaker.to_owned());
        let (id, text) = (TurnId { session: id, number: 3 }, text.to_owned());
        let turn = Turn { id, speaker, role, text, time: None, attributes: Attributes::new() };
        turn_document(&turn, "ada").unwrap()
    }

    fn chunks(document: &Document) -> Vec<Chunk> {
        let words = |text: &str| clew_text::words(text).collect::<Vec<_>>();
        statement_chunks(document, 1, &words, 256)
    }

    fn told(document: &Document) -> Vec<(u32, String, String)> {
        let passage = |chunk: &Chunk| chunk.span.of(&document.text).unwrap().to_owned();
        let told = |chunk: Chunk| (chunk.ordinal, passage(&chunk), chunk.key_text);
        chunks(document).into_iter().map(told).collect()
    }

    /// Returns the keys of a document with the texts that are embedded for each.
    fn keyed(document: &Document, keys: &[&str], window: usize) -> Option<Vec<(String, String)>> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let words = |text: &str| clew_text::words(text).collect::<Vec<_>>();
        let chunking = Chunking::Sentences { max_tokens: 64 };
        let chunks = key_chunks(document, &keys, &chunking, &words, window).unwrap()?;
        for (ordinal, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk.ordinal as usize, ordinal);
            assert!(chunk.tokens as usize <= window);
        }
        assert!(chunks.iter().any(|chunk| chunk.span.end == document.text.len()));
        let key = |chunk: Chunk| {
            (chunk.attributes.into_values().next().unwrap().to_string(), chunk.key_text)
        };
        Some(chunks.into_iter().map(key).collect())
    }

    #[test]
    fn each_key_of_a_corpus_is_a_chunk_of_its_own() {
        let text = "How do I get ink out? I adopted a cat.";
        let said = document(SpeakerRole::User, "", text);
        let whole = format!("user: {text}");
        let key = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let expected = [
            key("value", &whole),
            key("fact", "I adopted a cat."),
            key("fact+value", &format!("I adopted a cat.\n{whole}")),
            key("user", &whole),
        ];
        let keys = ["value", "fact", "fact+value", "user"];
        assert_eq!(keyed(&said, &keys, 256).unwrap(), expected);
        // The words of an assistant are not statements of the user, and not part of the key `user`.
        let answered = document(SpeakerRole::Assistant, "", text);
        let names: Vec<String> =
            keyed(&answered, &keys, 256).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["value", "fact+value"]);
    }

    #[test]
    fn a_key_that_is_made_of_a_turn_is_as_long_as_the_encoder_reads() {
        let text = format!("I keep {} bees.", "very ".repeat(40));
        let keyed = keyed(&document(SpeakerRole::User, "", &text), &["value", "fact"], 32).unwrap();
        let (_, fact) = keyed.iter().find(|(name, _)| name == "fact").unwrap();
        assert_eq!(clew_text::words(fact).count(), 30);
    }

    #[test]
    fn what_is_no_turn_and_turns_of_corpora_without_keys_have_none() {
        let said = document(SpeakerRole::User, "", "I keep bees.");
        assert!(keyed(&said, &[], 256).is_none());
        let notes = Document { id: "notes.txt".parse().unwrap(), ..said };
        assert!(keyed(&notes, &["value"], 256).is_none());
    }

    #[test]
    fn statements_are_chunks_where_they_stand() {
        let text = "How do I get ink out? My shirt\nis spoilt. Hurry! I adopted a cat.";
        let user = document(SpeakerRole::User, "", text);
        let expected = [
            (1, "My shirt\nis spoilt.".to_owned(), "My shirt is spoilt.".to_owned()),
            (2, "I adopted a cat.".to_owned(), "I adopted a cat.".to_owned()),
        ];
        assert_eq!(told(&user), expected);
        assert_eq!(chunks(&user)[1].tokens, 6);
    }

    #[test]
    fn what_is_one_statement_or_an_assistants_or_no_turn_has_none() {
        for document in [
            document(SpeakerRole::User, "", " I adopted a cat. "),
            document(SpeakerRole::Assistant, "", "I see. My advice is to wait."),
            document(SpeakerRole::Other, "Bo", "Really? I adopted a cat."),
            Document {
                id: "notes.txt".parse().unwrap(),
                text: "Why? I adopted a cat.".to_owned(),
                media_type: MediaType::Plain,
                title: String::new(),
                attributes: Attributes::new(),
                event_time: None,
                labels: Labels::default(),
                source_version: None,
            },
        ] {
            assert!(chunks(&document).is_empty(), "{document:?}");
        }
        let many: String = (0..40).map(|number| format!("I own {number} cats. ")).collect();
        assert_eq!(chunks(&document(SpeakerRole::User, "", &many)).len(), MAX_STATEMENTS);
    }

    proptest! {
        #[test]
        fn statements_stand_in_the_text_of_their_document(
            text in "(I |my |é|a\u{301}|[a-z]{1,5}|[.!? \n]){1,40}|\\PC{1,60}"
        ) {
            let document = document(SpeakerRole::User, "", &text);
            let whole = Span::new(0, document.text.len());
            let spans = chunks(&document).into_iter().map(|statement| statement.span);
            let spans: Vec<Span> = std::iter::once(whole).chain(spans).collect();
            prop_assert_eq!(passages_among(&spans), 1);
            for (place, chunk) in (1..).zip(chunks(&document)) {
                prop_assert_eq!(chunk.ordinal, place);
                let passage = chunk.span.of(&document.text).unwrap();
                prop_assert_eq!(clew_text::one_line(passage), chunk.key_text);
            }
        }
    }
}
