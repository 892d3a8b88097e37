//! Words that occur nowhere else, and texts that contain them.

/// Letters without vowels and without endings that a stemmer would remove, so that a word is found
/// by itself and by no other.
const LETTERS: [char; 14] = ['b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'm', 'p', 'q', 'v', 'w', 'z'];

/// Returns the word of a number. Words of different kinds also differ.
pub fn word(kind: char, number: usize) -> String {
    spelled(kind, number, 4)
}

/// Returns the word of a number, with the given number of letters after its kind.
pub fn spelled(kind: char, mut number: usize, letters: usize) -> String {
    let mut word = format!("x{kind}");
    for _ in 0..letters {
        word.push(LETTERS[number % LETTERS.len()]);
        number /= LETTERS.len();
    }
    assert_eq!(number, 0, "there are not so many words");
    word
}

/// Returns the number of a word, or `None` if it is not such a word.
pub fn number_of(word: &str) -> Option<usize> {
    let digit = |letter| LETTERS.iter().position(|known| *known == letter);
    let letters = word.chars().skip(2).collect::<Vec<_>>();
    letters.into_iter().rev().try_fold(0, |sum, letter| Some(sum * LETTERS.len() + digit(letter)?))
}

/// Returns a text of several chunks, each of which contains each of `words`.
pub fn text_with(words: &[&str]) -> String {
    let words = words.join(" ");
    let paragraphs = [
        format!("The old house by the river is {words} and the cat was there."),
        format!("In the morning a train came from the city with {words} on it."),
        format!("One letter for the new friend {words} was lost that winter."),
    ];
    paragraphs.join("\n\n")
}
