//! Numbers and amounts of money as English writes them.

const SPELT: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

/// The number that a word is, in digits or spelt up to twenty.
pub(super) fn number(word: &str) -> Option<f64> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    if let Some(place) = SPELT.iter().position(|spelt| *spelt == word) {
        return Some(place as f64);
    }
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    word.replace(',', "").parse().ok().filter(|_| is_number)
}

/// The amounts in dollars that a text names, in order.
pub(super) fn amounts(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    for after in text.split('$').skip(1) {
        let length = after.bytes().take_while(|b| b.is_ascii_digit() || b",.".contains(b)).count();
        let digits = after[..length].trim_end_matches(['.', ',']).replace(',', "");
        let is_thousands = after[length..].starts_with(['k', 'K']);
        if let Ok(amount) = digits.parse::<f64>() {
            found.push(if is_thousands { 1000.0 * amount } else { amount });
        }
    }
    found
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
    }
}
