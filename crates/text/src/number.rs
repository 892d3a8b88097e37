//! Numbers, ordinals and months as English words.

/// Names of the months in lower case, January first.
pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const NUMBERS: [&str; 21] = [
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
const TENS: [&str; 7] = ["thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];

/// Returns the number that a lower-case word spells: 0 to 20, or a multiple of ten up to 90.
pub fn spelt_number(lower: &str) -> Option<u32> {
    place(&NUMBERS, lower).or_else(|| place(&TENS, lower).map(|tens| 10 * (tens + 3)))
}

/// Returns the number of the ordinal that a lower-case word spells, up to the twelfth.
pub fn spelt_ordinal(lower: &str) -> Option<u32> {
    place(&ORDINALS, lower).map(|place| place + 1)
}

fn place(words: &[&str], lower: &str) -> Option<u32> {
    (0..).zip(words).find(|(_, word)| **word == lower).map(|(place, _)| place)
}

/// Returns the number, from 1, of the month that a lower-case word names: in full, or by its first
/// three letters (also `sept`).
pub fn month(lower: &str) -> Option<u8> {
    let is_named = |name: &str| {
        name == lower || name.get(..3) == Some(lower) || lower == "sept" && name == "september"
    };
    (1..).zip(MONTHS).find(|(_, name)| is_named(name)).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ordinals_and_months_are_told_by_their_words() {
        for (word, number, ordinal, of_year) in [
            ("zero", Some(0), None, None),
            ("twenty", Some(20), None, None),
            ("thirty", Some(30), None, None),
            ("ninety", Some(90), None, None),
            ("first", None, Some(1), None),
            ("twelfth", None, Some(12), None),
            ("may", None, None, Some(5)),
            ("sept", None, None, Some(9)),
            ("dec", None, None, Some(12)),
            ("decem", None, None, None),
            ("", None, None, None),
        ] {
            let told = (spelt_number(word), spelt_ordinal(word), month(word));
            assert_eq!(told, (number, ordinal, of_year), "{word}");
        }
    }
}
