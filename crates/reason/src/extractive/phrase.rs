//! Finds and cuts phrases of English, ignoring case.

/// White space and punctuation around phrases in lists and questions.
const AROUND: [char; 10] = [' ', '\n', '\t', ',', '.', '?', '!', ':', ';', '-'];

/// Splits `text` around the first occurrence of the words of `phrase`, which is in lower case.
pub(super) fn split<'a>(text: &'a str, phrase: &str) -> Option<(&'a str, &'a str)> {
    // Only ASCII letters change case, so byte offsets stay the same.
    let lower = text.to_ascii_lowercase();
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let place = lower.match_indices(phrase).map(|(start, _)| start).find(|&start| {
        !is_word(text[..start].chars().next_back())
            && !is_word(text[start + phrase.len()..].chars().next())
    })?;
    Some((text[..place].trim(), text[place + phrase.len()..].trim()))
}

/// Splits `text` around the phrase of `phrases` that occurs first, or around the longest of several
/// at one place.
pub(super) fn split_any<'a>(text: &'a str, phrases: &[&str]) -> Option<(&'a str, &'a str)> {
    let found = phrases.iter().filter_map(|phrase| split(text, phrase));
    found.min_by_key(|(before, after)| (before.len(), after.len()))
}

/// Returns whether `text` contains any of `phrases`.
pub(super) fn holds_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| split(text, phrase).is_some())
}

/// Returns the text after the longest of `phrases` that `text` begins with.
pub(super) fn after_start<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    let found = phrases.iter().filter_map(|phrase| split(text, phrase));
    found.filter(|(before, _)| before.is_empty()).map(|(_, after)| after).min_by_key(|s| s.len())
}

/// Removes the marks around a phrase. Quotation marks stay if they enclose only a part of it.
pub(super) fn bare(phrase: &str) -> &str {
    let phrase = phrase.trim_matches(AROUND);
    let quotes = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’')];
    let quoted = quotes.iter().find_map(|&(open, close)| {
        phrase.strip_prefix(open)?.strip_suffix(close).filter(|inner| !inner.contains(open))
    });
    quoted.unwrap_or(phrase).trim_matches(AROUND)
}

/// Returns the items of "A, B and C", in order: the quoted parts if there are at least two,
/// otherwise the parts between commas and `word`s.
pub(super) fn items<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let quoted = quoted(text);
    if quoted.len() >= 2 {
        return quoted;
    }
    let mut items = Vec::new();
    for part in text.split(", ") {
        let mut rest = after_start(part, &[word]).unwrap_or(part);
        while let Some((item, more)) = split(rest, word) {
            items.push(item);
            rest = more;
        }
        items.push(rest);
    }
    items.into_iter().map(bare).filter(|item| !item.is_empty()).collect()
}

/// Returns the parts between quotation marks. A mark within a word is an apostrophe.
fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (place, c) in text.char_indices() {
        let next = place + c.len_utf8();
        let is_after_word = text[..place].chars().next_back().is_some_and(char::is_alphanumeric);
        let is_before_word = text[next..].chars().next().is_some_and(char::is_alphanumeric);
        match (c, open) {
            (_, Some((start, close))) if c == close && !is_before_word => {
                found.push(text[start..place].trim_matches(AROUND));
                open = None;
            }
            ('"' | '\'', None) if !is_after_word => open = Some((next, c)),
            ('“', None) => open = Some((next, '”')),
            ('‘', None) => open = Some((next, '’')),
            _ => {}
        }
    }
    found.retain(|item| !item.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn phrases_are_whole_words() {
        assert_eq!(split("Band AND drum", "and"), Some(("Band", "drum")));
        assert_eq!(split("Band", "and"), None);
        assert_eq!(split_any("a or b and c", &["and", "or"]), Some(("a", "b and c")));
        assert_eq!(
            after_start("The day that I left", &["the day", "the day that"]),
            Some("I left")
        );
        assert_eq!(bare("'the harp'?"), "the harp");
        assert_eq!(bare("my sister's harp,"), "my sister's harp");
    }

    #[test]
    fn lists_are_cut_at_commas_and_their_last_word() {
        assert_eq!(items("Ann, Bob and Cid?", "and"), ["Ann", "Bob", "Cid"]);
        assert_eq!(items("the harp, or my lute?", "or"), ["the harp", "my lute"]);
        assert_eq!(items("'I wept, and left', \"Bob's harp\", and 'it'", "and").len(), 3);
        assert_eq!(items("Ann's harp or Bob's lute", "or"), ["Ann's harp", "Bob's lute"]);
        assert!(items(" , ", "and").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_can_be_cut(text in "([a-zA-Z,.'\"“”‘’ é]|and |or ){0,60}|\\PC{0,40}") {
            for item in items(&text, "and") {
                prop_assert!(text.contains(bare(item)));
            }
            if let Some((before, after)) = split(&text, "and") {
                prop_assert!(before.len() + after.len() < text.len());
            }
        }
    }
}
