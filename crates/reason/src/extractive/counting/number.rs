//! Numbers and amounts of money in English.

use clew_text::spelt_number;

/// Returns the number that a word is: in digits, or spelt up to twenty or in tens.
pub(super) fn number(word: &str) -> Option<f64> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    if let Some(number) = spelt_number(&word) {
        return Some(number.into());
    }
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    word.replace(',', "").parse().ok().filter(|_| is_number)
}

/// Words after a figure that make it an amount in dollars.
const DOLLARS: [&str; 4] = ["dollars", "dollar", "bucks", "usd"];

/// Returns the amounts in dollars that a text names, in order: "$40", "$5k", "1,200 dollars".
pub(super) fn amounts(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let mut signed = word.split('$').skip(1).filter_map(figure).peekable();
        if signed.peek().is_some() {
            found.extend(signed);
        } else if let (Some(amount), Some(unit)) = (figure(word), words.get(place + 1)) {
            let unit = unit.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
            found.extend(DOLLARS.contains(&unit.as_str()).then_some(amount));
        }
    }
    found
}

/// Returns the figure that a text begins with; a following "k" means thousands.
fn figure(text: &str) -> Option<f64> {
    let length = text.bytes().take_while(|b| b.is_ascii_digit() || b",.".contains(b)).count();
    let digits = text[..length].trim_end_matches(['.', ',']).replace(',', "");
    let amount: f64 = digits.parse().ok()?;
    let is_thousands = text[length..].starts_with(['k', 'K']);
    Some(if is_thousands { 1000.0 * amount } else { amount })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_amounts_are_read() {
        for (word, expected) in [
            ("three", Some(3.0)),
            ("1,200", Some(1200.0)),
            ("2.", Some(2.0)),
            ("a", None),
            ("3/1", None),
        ] {
            assert_eq!(number(word), expected, "{word}");
        }
        assert_eq!(
            amounts("I paid $40, then $1,200.50. Not 30$ or $x, but $5k."),
            [40.0, 1200.5, 5000.0]
        );
        assert_eq!(
            amounts("It was 400 dollars, 2.50 Dollars or 3k bucks in 2 shops."),
            [400.0, 2.5, 3000.0]
        );
        assert_eq!(amounts("$30 dollars, of all dollars"), [30.0]);
    }
}
