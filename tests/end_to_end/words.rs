//! Words that occur nowhere else, and texts made of them.

/// Letters without the vowels and endings that a stemmer would take for grammar, so that a word is
/// found by itself and by no other.
const LETTERS: [char; 14] = ['b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'm', 'p', 'q', 'v', 'w', 'z'];

/// The word of a number; words of different kinds differ too.
pub fn word(kind: char, mut number: usize) -> String {
    let mut word = format!("x{kind}");
    for _ in 0..4 {
        word.push(LETTERS[number % LETTERS.len()]);
        number /= LETTERS.len();
    }
    assert_eq!(number, 0, "there are not so many words");
    word
}

/// A text of several chunks, every one of which carries each of `words`.
pub fn text_with(words: &[&str]) -> String {
    let words = words.join(" ");
    let paragraphs = [
        format!("The old house by the river is {words} and the cat was there."),
        format!("In the morning a train came from the city with {words} on it."),
        format!("One letter for the new friend {words} was lost that winter."),
    ];
    paragraphs.join("\n\n")
}
