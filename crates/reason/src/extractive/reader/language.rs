//! Tells whether a question is in English, the language that the reader was trained on.

use clew_text::words;

/// Words that shape English sentences and hardly occur in those of other languages. In lower case,
/// sorted for binary search.
const ENGLISH: [&str; 36] = [
    "about", "and", "are", "can", "could", "did", "does", "from", "has", "have", "how", "it",
    "many", "much", "my", "of", "our", "should", "that", "the", "their", "there", "this", "were",
    "what", "when", "where", "which", "who", "whom", "whose", "why", "with", "would", "you",
    "your",
];
/// Words that shape sentences of other languages with Latin letters, and seldom stand in English
/// ones, in names of people and places included. Sorted for binary search.
const OTHERS: [&str; 108] = [
    "aan", "auf", "avec", "bei", "bir", "como", "cuando", "cuál", "cuáles", "cuándo", "cuánto",
    "cuántos", "cómo", "dans", "das", "della", "dem", "der", "dla", "donde", "dónde", "ein",
    "eine", "einem", "einen", "einer", "es", "et", "für", "gdzie", "hangi", "heeft", "het",
    "hoeveel", "hva", "hvad", "hvem", "hvilken", "hvor", "hvornår", "ikke", "inte", "ist", "jaka",
    "jaki", "jakie", "jest", "kiedy", "kto", "które", "który", "mikä", "missä", "nerede", "nicht",
    "niet", "não", "och", "onde", "où", "para", "perché", "por", "porque", "pour", "pourquoi",
    "qual", "quale", "quali", "quand", "quando", "quanto", "que", "quel", "quelle", "quelles",
    "quels", "quem", "qui", "quién", "quiénes", "quoi", "qué", "sind", "sont", "und", "une", "vad",
    "vem", "vilka", "vilken", "waar", "wann", "wanneer", "warum", "wat", "welche", "welcher",
    "welches", "welke", "wem", "wer", "wie", "wurde", "wurden", "zum", "zur", "är",
];
/// Share of letters of other scripts above which a text is not English, whatever its words are.
const MOST_FOREIGN_LETTERS: f32 = 0.3;
/// Number of words of a text that are looked at.
const MOST_WORDS: usize = 200;

/// Returns whether `question` is in English. If its words do not tell, as in "Ada's phone?", those
/// of `texts` decide, in which the answer is looked for. If they do not tell either, it is.
pub(super) fn is_english<'t>(question: &str, texts: impl IntoIterator<Item = &'t str>) -> bool {
    let lean = leaning(question);
    let lean = if lean == 0 { texts.into_iter().map(leaning).sum() } else { lean };
    lean >= 0
}

/// Returns a positive number for a text in English, a negative one for a text in another language,
/// and 0 if its words do not tell.
fn leaning(text: &str) -> i32 {
    let is_latin = |c: &char| *c <= '\u{24f}' || ('\u{1e00}'..='\u{1eff}').contains(c);
    let start = &text[..text.floor_char_boundary(16 * MOST_WORDS)];
    let (latin, foreign): (Vec<char>, Vec<char>) =
        start.chars().filter(|c| c.is_alphabetic()).partition(is_latin);
    let letters = latin.len() + foreign.len();
    if foreign.len() as f32 > MOST_FOREIGN_LETTERS * letters as f32 {
        return -1;
    }
    let (mut english, mut other) = (0, 0);
    for word in words(start).take(MOST_WORDS).filter_map(|span| span.of(start)) {
        let lower = word.to_lowercase();
        english += i32::from(ENGLISH.binary_search(&lower.as_str()).is_ok());
        other += i32::from(OTHERS.binary_search(&lower.as_str()).is_ok());
    }
    // A title or name in another language may stand in an English question.
    if english > 0 && english == other { 1 } else { english - other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_is_told_from_other_languages() {
        assert!(ENGLISH.is_sorted() && OTHERS.is_sorted());
        for question in [
            "Who approves purchases above 5000 euros?",
            "When was Charles de Gaulle born?",
            "Who wrote the song Für Elise?",
            "What does 糸 mean in the poem?",
            "Ada's phone number?",
            "",
        ] {
            assert!(is_english(question, []), "{question}");
        }
        for question in [
            "Wer genehmigt Einkäufe über 5000 Euro?",
            "Wie heißt der Leiter von Atlas?",
            "谁批准5000欧元以上的采购?",
            "誰が承認しますか",
            "Кто руководит проектом?",
            "Qui dirige le projet ?",
            "¿Quién dirige el proyecto?",
            "Chi ha scritto il libro e quando?",
            "Kto napisał Lalkę?",
            "Wat kost een licentie?",
            "Vem skrev boken?",
            "من كتب الكتاب؟",
        ] {
            assert!(!is_english(question, []), "{question}");
        }
    }

    #[test]
    fn what_a_question_does_not_tell_its_evidence_does() {
        let german = "Der Leiter ist Jonas. Er wurde von der Firma für das Projekt gewonnen.";
        let english = "Jonas is the lead of it. He was found by the firm for the project.";
        assert!(!is_english("Was kostet Atlas?", [german]));
        assert!(is_english("Leiter Atlas?", [english]));
        assert!(is_english("Who leads the project?", [german]));
    }
}
