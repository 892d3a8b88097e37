//! Statements as chunks of their turn.

use clew_core::{Chunk, Document, Span};
use clew_text::trimmed;

use crate::fact::told;
use crate::{Role, Turn};

/// Most statements of a turn that are chunks, and most bytes of one.
const MAX_STATEMENTS: usize = 12;
const MAX_STATEMENT_BYTES: usize = 400;
/// Tokens an encoder adds around what it reads.
const SPECIAL_TOKENS: usize = 2;

/// What a user states of themselves in a turn ([`crate::facts`]), each as a chunk beside those of its text, of which
/// there are `chunks`: none for other documents, for turns of others, and for a turn that is one statement.
///
/// Users tell an assistant of themselves by the way: that they adopted a cat, in a question about ink stains. The
/// vector of the whole turn is of the question; that of the statement is of the cat. Among several people turns are
/// short, and statements by themselves lose (3 points of frac@5 on LoCoMo). LongMemEval keeps facts as keys of the
/// turn they are of (section 5.3), and merges them into one text; each by itself finds more (`BENCHMARKS.md`, section
/// Keys). `token_spans` and `window_tokens` are the encoder's, as in [`clew_text::chunk`].
pub fn statement_chunks(
    document: &Document,
    chunks: usize,
    token_spans: &dyn Fn(&str) -> Vec<Span>,
    window_tokens: usize,
) -> Vec<Chunk> {
    let turn = Turn::of(document).map(|(_, turn)| turn);
    let Some(turn) = turn.filter(|turn| turn.role == Role::User) else { return Vec::new() };
    let heading = document.text.len() - turn.text.len();
    let mut statements: Vec<Chunk> = Vec::new();
    for (sentence, key_text) in told(Role::User, "", &turn.text) {
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
        });
    }
    statements
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, DocumentId, Labels, MediaType};
    use proptest::prelude::*;

    use super::*;
    use crate::TurnId;

    fn document(role: Role, speaker: &str, text: &str) -> Document {
        let (id, speaker) = ("monday".parse::<DocumentId>().unwrap(), speaker.to_owned());
        let (id, text) = (TurnId { session: id, number: 3 }, text.to_owned());
        let turn = Turn { id, speaker, role, text, time: None, attributes: Attributes::new() };
        turn.document("ada").unwrap()
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

    #[test]
    fn statements_are_chunks_where_they_stand() {
        let text = "How do I get ink out? My shirt\nis spoilt. Hurry! I adopted a cat.";
        let user = document(Role::User, "", text);
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
            document(Role::User, "", " I adopted a cat. "),
            document(Role::Assistant, "", "I see. My advice is to wait."),
            document(Role::Other, "Bo", "Really? I adopted a cat."),
            Document {
                id: "notes.txt".parse().unwrap(),
                text: "Why? I adopted a cat.".to_owned(),
                media_type: MediaType::Plain,
                title: String::new(),
                attributes: Attributes::new(),
                event_time: None,
                labels: Labels::default(),
            },
        ] {
            assert!(chunks(&document).is_empty(), "{document:?}");
        }
        let many: String = (0..40).map(|number| format!("I own {number} cats. ")).collect();
        assert_eq!(chunks(&document(Role::User, "", &many)).len(), MAX_STATEMENTS);
    }

    proptest! {
        #[test]
        fn statements_stand_in_the_text_of_their_document(
            text in "(I |my |é|a\u{301}|[a-z]{1,5}|[.!? \n]){1,40}|\\PC{1,60}"
        ) {
            let document = document(Role::User, "", &text);
            for (place, chunk) in (1..).zip(chunks(&document)) {
                prop_assert_eq!(chunk.ordinal, place);
                let passage = chunk.span.of(&document.text).unwrap();
                prop_assert_eq!(clew_text::one_line(passage), chunk.key_text);
            }
        }
    }
}
