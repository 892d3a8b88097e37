//! Writes amounts in one way, so that texts that name the same amount have the same words: "5,000
//! EUR" and "€5000" are both `5000 euro`.

use std::borrow::Cow;

use clew_text::{Term, terms};

/// Signs of currencies with their names.
const SIGNS: [(char, &str); 4] = [('€', "euro"), ('$', "dollar"), ('£', "pound"), ('¥', "yen")];
/// Codes of currencies with their names.
const CODES: [(&str, &str); 4] =
    [("eur", "euro"), ("usd", "dollar"), ("gbp", "pound"), ("jpy", "yen")];
/// Marks between groups of three digits. The full stop is left out, because it marks decimals too.
const BETWEEN_GROUPS: [char; 6] = [',', '\'', '’', '\u{a0}', '\u{2009}', '\u{202f}'];

/// Returns the terms of `text`, with amounts in one form.
pub(crate) fn plain_terms(text: &str) -> Vec<Term> {
    terms(&plain(text)).collect()
}

/// Returns `text` with numbers without marks between groups of digits, and with currencies as names
/// after their numbers.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let has_sign = text.contains(SIGNS.map(|(sign, _)| sign));
    if !has_sign && !text.contains(|c: char| c.is_ascii_digit()) && !has_code(text) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_after_point = false;
    while let Some(first) = rest.chars().next() {
        let word = &rest[..rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())];
        let length = if let Some((_, name)) = SIGNS.iter().find(|(sign, _)| *sign == first) {
            let (number, length) = number_after_sign(&rest[first.len_utf8()..]);
            written.extend([" ", &number, " ", name, " "]);
            first.len_utf8() + length
        } else if word.is_empty() {
            written.push(first);
            first.len_utf8()
        } else if let Some(length) = grouped(rest).filter(|_| !is_after_point) {
            written.push_str(&digits_of(&rest[..length]));
            length
        } else {
            written.push_str(currency(word).unwrap_or(word));
            word.len()
        };
        // The digits after a decimal point are not in groups.
        is_after_point = first == '.';
        rest = &rest[length..];
    }
    Cow::Owned(written)
}

/// Returns the number that `text` begins with, without marks between groups of digits, and its
/// length in bytes; nothing if there is none.
fn number_after_sign(text: &str) -> (String, usize) {
    let spaces = text.len() - text.trim_start().len();
    let number = &text[spaces..];
    let count = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = grouped(number).unwrap_or_else(|| count(number));
    if whole == 0 {
        return (String::new(), 0);
    }
    let decimals = number[whole..].strip_prefix('.').map_or(0, count);
    let length = if decimals == 0 { whole } else { whole + 1 + decimals };
    (format!("{}{}", digits_of(&number[..whole]), &number[whole..length]), spaces + length)
}

fn digits_of(number: &str) -> String {
    number.chars().filter(char::is_ascii_digit).collect()
}

fn has_code(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| currency(word).is_some())
}

fn currency(word: &str) -> Option<&'static str> {
    let (_, name) = CODES.iter().find(|(code, _)| code.eq_ignore_ascii_case(word))?;
    Some(name)
}

/// Returns the length, in bytes, of the number in groups of three digits that `text` begins with.
fn grouped(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(text);
    let mark = text[length..].chars().next().filter(|mark| BETWEEN_GROUPS.contains(mark))?;
    if !(1..=3).contains(&length) {
        return None;
    }
    let first = length;
    while let Some(group) = text[length..].strip_prefix(mark).filter(|group| digits(group) == 3) {
        length = text.len() - group.len() + 3;
    }
    (length > first).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_amount_has_the_same_words_however_it_is_written() {
        for [a, b] in [
            ["above 5000 euros", "above 5,000 EUR"],
            ["5000 EUR", "5’000 eur"],
            ["€5,000", "5000 euro"],
            ["$ 1,200.50 each", "1200.50 USD each"],
            ["1,234,567.50 USD", "1234567.50 dollars"],
            ["£30", "30 pounds"],
            ["12000 km", "12\u{202f}000 km"],
        ] {
            assert_eq!(plain_terms(a), plain_terms(b));
        }
    }

    #[test]
    fn what_is_no_amount_stays() {
        for text in ["a, b", "2019,2020", "1,23", "x1,000y", "The neuron", "3.141,592", "12,3456"] {
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain("1,000 2,50 3,000,1 4,000th"), "1000 2,50 3000,1 4000th");
    }

    proptest! {
        #[test]
        fn what_is_written_plainly_stays(
            text in "([0-9]{1,4}|[,'’. €$]|eur|USD|é){0,20}|\\PC{0,40}",
        ) {
            let once = plain(&text);
            prop_assert!(!once.contains(['€', '$']));
            prop_assert_eq!(plain(&once), once.as_ref());
        }
    }
}
