//! Takes a question of several steps apart: "Where was the director of Titanic born?" asks who the
//! director of Titanic is, and then where that person was born. English only.

use clew_core::Span;
use clew_text::is_grammar_word;

/// A description within a question, and the question around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    /// Question about whom or what the description means.
    pub(super) inner: String,
    before: String,
    after: String,
}

/// Nouns for people that do not end like those of [`PERSON_ENDINGS`].
const PEOPLE: [&str; 32] = [
    "artist",
    "aunt",
    "bassist",
    "boss",
    "boy",
    "bride",
    "ceo",
    "champion",
    "chief",
    "child",
    "coach",
    "cousin",
    "dentist",
    "friend",
    "girl",
    "guitarist",
    "head",
    "husband",
    "king",
    "lead",
    "man",
    "monarch",
    "niece",
    "pianist",
    "president",
    "queen",
    "scientist",
    "son",
    "spouse",
    "uncle",
    "wife",
    "woman",
];
/// Endings of nouns for people: "director", "writer", "guitarist", "musician".
const PERSON_ENDINGS: [&str; 5] = ["er", "or", "ist", "cian", "sman"];
/// Nouns with these endings that mean no people.
const NO_PEOPLE: [&str; 20] = [
    "center",
    "chapter",
    "color",
    "error",
    "factor",
    "flavor",
    "letter",
    "list",
    "matter",
    "motor",
    "newspaper",
    "number",
    "order",
    "paper",
    "power",
    "river",
    "sector",
    "theater",
    "tower",
    "water",
];
/// Nouns for other things that a description leads to.
const THINGS: [&str; 35] = [
    "album",
    "area",
    "band",
    "birthplace",
    "book",
    "capital",
    "city",
    "club",
    "company",
    "continent",
    "country",
    "county",
    "department",
    "district",
    "film",
    "firm",
    "group",
    "hometown",
    "island",
    "league",
    "mountain",
    "movie",
    "municipality",
    "novel",
    "organization",
    "place",
    "province",
    "river",
    "school",
    "show",
    "song",
    "state",
    "team",
    "town",
    "university",
];
/// Words that begin a clause about the noun before them.
const RELATIVES: [&str; 5] = ["who", "that", "which", "where", "whose"];
/// Words between a preposition and its noun clause, as in "in which".
const PREPOSITIONS: [&str; 5] = ["in", "at", "on", "from", "for"];
/// Words at the end of a clause about where something is.
const PLACED: [&str; 10] =
    ["based", "born", "buried", "died", "fought", "found", "held", "located", "set", "situated"];
/// Nouns after "of" that make a noun the origin of somebody: "place of birth".
const ORIGINS: [&str; 5] = ["birth", "citizenship", "death", "origin", "residence"];
/// Words within a name that are not capitalised.
const JOINING: [&str; 16] = [
    "a", "an", "and", "at", "de", "der", "for", "in", "la", "of", "on", "the", "to", "und", "van",
    "von",
];
/// Maximum number of words of a noun with its adjectives, and of what may follow a clause.
const MOST_NOUN_WORDS: usize = 3;
const MOST_WORDS_AFTER: usize = 2;

/// Returns whether a lower-case noun stands for a person.
pub(super) fn is_person(noun: &str) -> bool {
    let is_ending = PERSON_ENDINGS.iter().any(|ending| noun.ends_with(ending));
    let is_other = NO_PEOPLE.contains(&noun) || is_grammar_word(noun);
    PEOPLE.contains(&noun) || is_ending && !is_other
}

/// Returns whether a description of such a noun leads on to one person or thing.
fn leads_on(noun: &str) -> bool {
    is_person(noun) || THINGS.contains(&noun)
}

/// A description with the words that it is made of.
struct Description {
    /// Span of its words in the question, by words.
    words: Span,
    inner: String,
}

impl Bridge {
    /// Returns the last description of `question`, which is the innermost one; `None` if there is
    /// none, or if the question asks for nothing more than it.
    pub(super) fn of(question: &str) -> Option<Self> {
        let question = question.trim().trim_end_matches(['?', '.', '!', ' ']);
        let words: Vec<&str> = question.split_whitespace().collect();
        let all = (0..words.len()).flat_map(|at| {
            [possessive(&words, at), of_name(&words, at), clause(&words, at)].into_iter().flatten()
        });
        let found = all.max_by_key(|it| it.words.start)?;
        let (before, after) = (&words[..found.words.start], &words[found.words.end..]);
        let is_content = |word: &&&str| !is_grammar_word(&bare(word).to_lowercase());
        let asks_more = before.iter().chain(after).any(|word| is_content(&word));
        asks_more.then(|| Self {
            inner: found.inner,
            before: before.join(" "),
            after: after.join(" "),
        })
    }

    /// Returns the question with `name` in place of the description.
    pub(super) fn across(&self, name: &str) -> String {
        let parts = [self.before.as_str(), name, self.after.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}?", parts.join(" "))
    }
}

/// Finds "Ada's father" and "my sister's dentist", whose owner is at `at`.
fn possessive(words: &[&str], at: usize) -> Option<Description> {
    let owner = words[at].strip_suffix("'s").or(words[at].strip_suffix("’s"))?;
    let is_led_on = |noun: &str| leads_on(noun) || noun.ends_with("-in-law");
    // As in "Ada's father" or "Ada's birth country".
    let noun_end = (at + 2..=at + 3).take_while(|&end| end <= words.len());
    let mut noun_end = noun_end.filter(|&end| is_led_on(bare(words[end - 1])));
    let is_owner = !owner.is_empty() && !is_grammar_word(&owner.to_lowercase());
    let noun_end = noun_end.next().filter(|_| is_owner)?;
    let noun = bare(words[noun_end - 1]);
    let mut start = at;
    if is_name(words[at]) {
        while start > 1 && is_within_name(words[start - 1]) {
            start -= 1;
        }
        // "of Spain's king": the name begins after the word that joins.
        while start < at && !is_name(words[start]) {
            start += 1;
        }
    } else {
        start = start.saturating_sub(1);
    }
    let end = noun_end + length_of_origin(&words[noun_end..]);
    let asking = if noun.ends_with("-in-law") { "Who is" } else { asking(noun) };
    let inner = format!("{asking} {}?", bare(&words[start..end].join(" ")));
    Some(Description { words: Span::new(start, end), inner })
}

/// Finds "the director of Titanic" and "the capital of the country Peru", whose "of" is at `at`.
fn of_name(words: &[&str], at: usize) -> Option<Description> {
    if words[at] != "of" {
        return None;
    }
    let article = article_before(words, at)?;
    let described = &words[article + 1..at];
    let noun = match described {
        [noun, origin @ ..] if !origin.is_empty() && length_of_origin(origin) == origin.len() => {
            noun
        }
        _ => described.last()?,
    };
    if described.iter().any(|word| is_name(word)) || !leads_on(noun) {
        return None;
    }
    let mut near = (at + 1..words.len()).take(1 + MOST_NOUN_WORDS);
    let name = near.find(|&place| is_name(words[place]))?;
    let mut end = name + 1;
    while end < words.len() && !ends_phrase(words[end - 1]) && is_within_name(words[end]) {
        end += 1;
    }
    while !is_name(words[end - 1]) {
        end -= 1;
    }
    let article_first = words[article].to_lowercase();
    let described = words[article + 1..end].join(" ");
    let inner = format!("{} {article_first} {}?", asking(noun), bare(&described));
    Some(Description { words: Span::new(article, end), inner })
}

/// Finds "the man who invented the telephone in 1876" and "the city where Tara Castle is located",
/// whose relative is at `at`.
fn clause(words: &[&str], at: usize) -> Option<Description> {
    if at == 0 || !RELATIVES.contains(&words[at]) {
        return None;
    }
    let is_prepositional = words[at] == "which" && PREPOSITIONS.contains(&words[at - 1]);
    let noun_end = if is_prepositional { at - 1 } else { at };
    let article = article_before(words, noun_end)?;
    let described = &words[article + 1..noun_end];
    let noun = described.last().filter(|noun| leads_on(noun))?;
    let last_name = (at + 1..words.len()).rev().find(|&place| is_name(words[place]))?;
    let is_of_subject = !is_prepositional && ["who", "that", "which"].contains(&words[at]);
    let after = words.len() - last_name - 1;
    let placed = (at..words.len()).find(|&place| PLACED.contains(&bare(words[place])));
    let end = match placed {
        _ if is_of_subject && after <= MOST_WORDS_AFTER => last_name + 1,
        Some(placed) if !is_of_subject => placed + 1,
        _ => words.len(),
    };
    let (told, described) = (&words[at + 1..end], described.join(" "));
    let inner = match words[at] {
        "whose" => format!("Which {described}'s {}?", told.join(" ")),
        _ if !is_of_subject => format!("In which {described} {}?", inverted(told)),
        _ if is_person(noun) => format!("Who {}?", told.join(" ")),
        _ => format!("Which {described} {}?", told.join(" ")),
    };
    Some(Description { words: Span::new(article, end), inner })
}

/// Returns the place of the article of a noun phrase that ends before `end`.
fn article_before(words: &[&str], end: usize) -> Option<usize> {
    let mut before = (0..end).rev().take(1 + MOST_NOUN_WORDS);
    before.find(|&place| ["the", "The", "a", "an"].contains(&words[place]))
}

/// Returns the number of words of "of birth" and the like at the beginning of `words`.
fn length_of_origin(words: &[&str]) -> usize {
    match words {
        ["of", origin, ..] if ORIGINS.contains(&bare(origin)) => 2,
        _ => 0,
    }
}

/// Returns a statement in the order of a question: "is Tara located" for "Tara is located".
fn inverted(told: &[&str]) -> String {
    match told.iter().position(|word| ["is", "was", "are", "were"].contains(word)) {
        Some(at) => [&[told[at]], &told[..at], &told[at + 1..]].concat().join(" "),
        None => told.join(" "),
    }
}

/// Returns the beginning of a question about a noun.
fn asking(noun: &str) -> &'static str {
    if is_person(noun) { "Who is" } else { "What is" }
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| matches!(c, ',' | '?' | '.' | ';'))
}

/// Returns whether a word is of a name, a title or a number.
fn is_name(word: &str) -> bool {
    let start = word.trim_start_matches(['"', '“', '(', '\'', '‘']);
    start.len() < word.len() || start.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
}

/// Returns whether a word may be within a name.
fn is_within_name(word: &str) -> bool {
    is_name(word) || JOINING.contains(&word)
}

fn ends_phrase(word: &str) -> bool {
    word.ends_with([',', ';', '?', '"', '”'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(question: &str) -> Option<(String, String)> {
        let bridge = Bridge::of(question)?;
        let outer = bridge.across("X");
        Some((bridge.inner, outer))
    }

    #[test]
    fn descriptions_are_taken_out_of_questions() {
        for (question, inner, outer) in [
            (
                "Where was the director of film Titanic born?",
                "Who is the director of film Titanic?",
                "Where was X born?",
            ),
            (
                "What is the date of death of the composer of The Straw Hat?",
                "Who is the composer of The Straw Hat?",
                "What is the date of death of X?",
            ),
            (
                "Where did Saw Thanda's husband die?",
                "Who is Saw Thanda's husband?",
                "Where did X die?",
            ),
            (
                "Where does my sister's dentist work?",
                "Who is my sister's dentist?",
                "Where does X work?",
            ),
            (
                "What nationality is the man who invented the telephone in 1876?",
                "Who invented the telephone in 1876?",
                "What nationality is X?",
            ),
            (
                "When did the woman who portrayed Corliss Archer die?",
                "Who portrayed Corliss Archer?",
                "When did X die?",
            ),
            (
                "Who leads the country where Buyende is located?",
                "In which country is Buyende located?",
                "Who leads X?",
            ),
            (
                "What county borders the county in which Tara is located?",
                "In which county is Tara located?",
                "What county borders X?",
            ),
            (
                "When was the area where Tara is located settled?",
                "In which area is Tara located?",
                "When was X settled?",
            ),
            (
                "What country was the author of Brand a citizen of?",
                "Who is the author of Brand?",
                "What country was X a citizen of?",
            ),
            (
                "Which region is Corey Taylor's city of birth in, and its capital?",
                "What is Corey Taylor's city of birth?",
                "Which region is X in, and its capital?",
            ),
            (
                "Which language is spoken in Jean-Luc Vandenbroucke's birth country?",
                "What is Jean-Luc Vandenbroucke's birth country?",
                "Which language is spoken in X?",
            ),
            (
                "The writer of “Wings” married which singer?",
                "Who is the writer of “Wings”?",
                "X married which singer?",
            ),
            (
                "Who leads the place of birth of David Morse?",
                "What is the place of birth of David Morse?",
                "Who leads X?",
            ),
            (
                "Who is the spouse of the director of Jump for Glory?",
                "Who is the director of Jump for Glory?",
                "Who is the spouse of X?",
            ),
            (
                "Who formed the state whose sport is Jousting?",
                "Which state's sport is Jousting?",
                "Who formed X?",
            ),
        ] {
            let expected = Some((inner.to_owned(), outer.to_owned()));
            assert_eq!(steps(question), expected, "{question}");
        }
    }

    #[test]
    fn a_question_of_one_step_is_no_bridge() {
        for question in [
            "Who is the director of Titanic?",
            "Who is Mugain's mother-in-law?",
            "When was the Battle of Hastings fought?",
            "Who approves purchases above 5000 euros?",
            "What was the end of World War II like?",
            "Who sang it?",
            "The storm hit a state named after which Native American tribes?",
            "What is Maria's phone number?",
            "of",
            "",
        ] {
            assert_eq!(steps(question), None, "{question}");
        }
    }

    #[test]
    fn steps_are_taken_one_by_one() {
        let question = "When did the father of the director of Titanic die?";
        let first = Bridge::of(question).unwrap();
        assert_eq!(first.inner, "Who is the director of Titanic?");
        let second = Bridge::of(&first.across("James Cameron")).unwrap();
        assert_eq!(second.inner, "Who is the father of James Cameron?");
        assert_eq!(second.across("Philip Cameron"), "When did Philip Cameron die?");
    }

    proptest! {
        #[test]
        fn any_question_is_taken_apart_or_not(
            question in "(the |of |Titanic |director |city |who |in |which |Ada's |born |é){0,14}\
                         |\\PC{0,60}",
        ) {
            if let Some(bridge) = Bridge::of(&question) {
                prop_assert!(!bridge.inner.is_empty() && bridge.across("X").contains('X'));
            }
        }
    }
}
