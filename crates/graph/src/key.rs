//! Entity keys: the part that all spellings of a name have in common.

use clew_core::EntityKey;
use clew_text::is_grammar_word;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Articles and forms of address that are dropped from the beginning of a key. Sorted.
const FORMS: [&str; 33] = [
    "a",
    "an",
    "dame",
    "doctor",
    "dr",
    "frau",
    "herr",
    "hon",
    "lady",
    "lord",
    "madam",
    "madame",
    "mademoiselle",
    "messrs",
    "miss",
    "mister",
    "mlle",
    "mme",
    "monsieur",
    "mr",
    "mrs",
    "ms",
    "mx",
    "prof",
    "professor",
    "rev",
    "reverend",
    "senor",
    "senora",
    "senorita",
    "signor",
    "sir",
    "the",
];

/// Word of a name, as it counts in a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Lower-case text without accents and punctuation; not empty.
    pub text: String,
    /// Whether it is written as words of names are, which means that it does not begin with a small
    /// letter.
    pub is_name_like: bool,
}

/// Returns the key of a name, or `None` if nothing is left of it, as of "the" and "—".
///
/// Case, accents, punctuation, possessive endings, leading articles and forms of address, and
/// remarks in parentheses do not count: "The Titanic (film)" and "titanic" have the same key.
/// Initials are joined, whatever the spaces between them: "J. R. R. Tolkien" is "jrr tolkien". A
/// form of address stays if only a grammar word would be left: "The Who" is not "who". So "Dr.
/// Watson" and "Watson" have the same key. The price is that "Mr. Bennet" and "Mrs. Bennet" have
/// the same key, too.
///
/// The key of a key is the key itself.
pub fn entity_key(name: &str) -> Option<EntityKey> {
    let decomposed = decomposed(name);
    let bare = without_parentheses(&decomposed);
    let of = |text: &str| key_of(&tokens_of(text));
    of(&bare).or_else(|| of(&decomposed))
}

/// Returns the words of a text, as they count in keys.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    tokens_of(&decomposed(text))
}

/// Returns the key of a name of these words.
pub(crate) fn key_of(tokens: &[Token]) -> Option<EntityKey> {
    let words = with_initials_joined(tokens);
    let mut rest = words.as_slice();
    while let [first, others @ ..] = rest {
        let leaves_nothing = matches!(others, [only] if is_grammar_word(only));
        if !is_form(first) || leaves_nothing {
            break;
        }
        rest = others;
    }
    (!rest.is_empty()).then(|| EntityKey(rest.join(" ")))
}

fn is_form(word: &str) -> bool {
    FORMS.binary_search(&word).is_ok()
}

/// Unifies compatibility forms, and removes the accents of Latin, Greek and Cyrillic. The combining
/// marks of other scripts stay, because there they are letters.
fn decomposed(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfkd().filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).collect()
}

/// Removes remarks in parentheses that are closed.
fn without_parentheses(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        let Some((_, behind)) = after.split_once(')') else { break };
        bare.push_str(before);
        bare.push(' ');
        rest = behind;
    }
    bare.push_str(rest);
    bare
}

fn tokens_of(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut word = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let next = chars.get(at + 1).copied();
        match c {
            '\'' | '’' | '‘' | 'ʼ' if !word.is_empty() => word.push('\''),
            '\'' | '’' | '‘' | 'ʼ' => {}
            // Keeps the point of "3.5"; the full stops of "U.S." are dropped.
            '.' if word.ends_with(char::is_numeric) && next.is_some_and(char::is_numeric) => {
                word.push(c);
            }
            '.' if next.is_some_and(char::is_alphanumeric) => {}
            // The signs of "C++" and "C#".
            '+' | '#' if !word.is_empty() && ends_word(&chars[at..]) => {
                word.push(c);
                if !matches!(next, Some('+' | '#')) {
                    push(&mut tokens, &mut word);
                }
            }
            c if c.is_alphanumeric() => word.push(c),
            c if is_combining_mark(c) && !word.is_empty() => word.push(c),
            _ => push(&mut tokens, &mut word),
        }
    }
    push(&mut tokens, &mut word);
    tokens
}

/// Returns whether a run of `+` and `#` stands at the end of a word.
fn ends_word(rest: &[char]) -> bool {
    rest.iter().find(|c| !matches!(c, '+' | '#')).is_none_or(|c| !c.is_alphanumeric())
}

/// Adds the word, and empties it.
fn push(tokens: &mut Vec<Token>, word: &mut String) {
    let is_name_like = word.chars().next().is_some_and(|first| !first.is_lowercase());
    let lower = lower_case(word);
    word.clear();
    let text = lower.strip_suffix("'s").unwrap_or(&lower).replace('\'', "");
    if !text.is_empty() {
        tokens.push(Token { text, is_name_like });
    }
}

/// Returns the word in lower case, with ligatures written out.
fn lower_case(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut lower = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        match c {
            'ß' => lower.push_str("ss"),
            'æ' => lower.push_str("ae"),
            'œ' => lower.push_str("oe"),
            'ø' => lower.push('o'),
            'đ' | 'ð' => lower.push('d'),
            'þ' => lower.push_str("th"),
            'ł' => lower.push('l'),
            'ı' => lower.push('i'),
            'ς' => lower.push('σ'),
            other => lower.push(other),
        }
    }
    lower
}

/// Returns the words, with each run of single letters joined into one.
fn with_initials_joined(tokens: &[Token]) -> Vec<String> {
    let mut words: Vec<String> = Vec::with_capacity(tokens.len());
    let mut after_initial = false;
    for token in tokens {
        let mut chars = token.text.chars();
        let is_initial = chars.next().is_some_and(char::is_alphabetic) && chars.as_str().is_empty();
        match words.last_mut() {
            Some(last) if is_initial && after_initial => last.push_str(&token.text),
            _ => words.push(token.text.clone()),
        }
        after_initial = is_initial;
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> String {
        entity_key(name).map(|key| key.0).unwrap_or_default()
    }

    #[test]
    fn writings_of_a_name_have_one_key() {
        for (names, expected) in [
            (&["The Titanic (film)", "titanic", " TITANIC "][..], "titanic"),
            (&["Zoë's", "Zoe", "ZOË", "zoé’s"], "zoe"),
            (&["Dr. John H. Watson", "the Dr John H Watson"], "john h watson"),
            (&["J. R. R. Tolkien", "J.R.R. Tolkien", "JRR Tolkien"], "jrr tolkien"),
            (&["U.S.A.", "USA", "U. S. A."], "usa"),
            (&["O'Brien", "O’BRIEN"], "obrien"),
            (&["Jean-Luc  Picard", "jean luc\npicard"], "jean luc picard"),
            (&["Lady Macbeth", "Macbeth"], "macbeth"),
            (&["Straße", "STRASSE"], "strasse"),
            (&["ΟΔΥΣΣΕΥΣ", "Οδυσσεύς"], "οδυσσευσ"),
            (&["The Who", "the who"], "the who"),
            (&["version 3.5", "Version 3.5."], "version 3.5"),
            (&["C++"], "c++"),
            (&["C#"], "c#"),
            (&["A+B"], "ab"),
            (&["(film)"], "film"),
            (&["", "—", "The", "Mr.", "'"], ""),
            (&["हिन्दी"], "हिन्दी"),
        ] {
            for name in names {
                assert_eq!(key(name), expected, "{name}");
            }
        }
        assert!(FORMS.is_sorted());
    }

    #[test]
    fn the_key_of_a_key_is_the_key_whatever_the_letter() {
        for c in '\0'..=char::MAX {
            if let Some(key) = entity_key(c.encode_utf8(&mut [0; 4])) {
                assert_eq!(entity_key(&key.0), Some(key), "{c:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_key_of_a_key_is_the_key(
            name in "(\\PC{0,12}|([a-cA-C1-3éßÉ.'’+# ()-]|the |mr\\. |'s ){0,12})"
        ) {
            if let Some(key) = entity_key(&name) {
                prop_assert_eq!(entity_key(&key.0), Some(key));
            }
        }

        #[test]
        fn case_and_space_do_not_count(words in prop::collection::vec("[a-zA-ZÀ-ÿ0-9.']{1,6}", 0..5)) {
            let (wide, narrow) = (words.join(" \n "), words.join(" "));
            prop_assert_eq!(entity_key(&wide), entity_key(&narrow));
            prop_assert_eq!(entity_key(&narrow.to_uppercase()), entity_key(&narrow.to_lowercase()));
        }
    }
}
