use clew_core::EntityKind;
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Extraction {
    extract(&ExtractionTask { text: text.to_owned(), ..ExtractionTask::default() })
}

fn names(extraction: &Extraction) -> Vec<&str> {
    extraction.entities.iter().map(|entity| entity.name.as_str()).collect()
}

/// Returns relations as sentences.
fn told(extraction: &Extraction) -> Vec<String> {
    let name = |entity: usize| extraction.entities[entity].name.as_str();
    let relation = |relation: &clew_core::Relation| {
        format!("{} | {} | {}", name(relation.head), relation.text, name(relation.tail))
    };
    extraction.relations.iter().map(relation).collect()
}

fn kind(extraction: &Extraction, name: &str) -> Option<EntityKind> {
    extraction.entities.iter().find(|entity| entity.name == name).map(|entity| entity.kind)
}

#[test]
fn names_are_told_from_words_that_begin_sentences() {
    for (text, expected) in [
        ("Ariadne gave Theseus a ball of thread.", &["Ariadne", "Theseus"][..]),
        ("Dinner was served. Thread is thin. However, nobody came.", &[]),
        ("The thread led out. Thread was rare in Crete.", &["Crete"]),
        ("We met Ada. Ada was late.", &["Ada"]),
        ("“Why?” asked Zoë. “Never mind,” said Mr. Darcy.", &["Zoë", "Mr. Darcy"]),
        ("She studied at the University of Oxford.", &["University of Oxford"]),
        ("He read Ludwig van Beethoven's letters.", &["Ludwig van Beethoven"]),
        ("NASA launched Apollo 11 to the Moon.", &["NASA", "Apollo 11", "Moon"]),
        ("J. R. R. Tolkien wrote it.", &["J. R. R. Tolkien"]),
        ("I saw I'm late, and He knew It.", &[]),
        ("HOW THE THREAD WAS FOUND", &[]),
        ("All about the thread\n\nIt was red.", &[]),
    ] {
        let extraction = read(text);
        assert_eq!(names(&extraction), expected, "{text}");
    }
}

#[test]
fn times_are_found_by_their_shape() {
    for (text, expected) in [
        ("It was on 5 May 1840.", &["5 May 1840"][..]),
        ("It was on May 5, 1840, a Sunday.", &["May 5, 1840", "Sunday"]),
        ("It was the 3rd of June.", &["3rd of June"]),
        ("In 1984 they sold 1984 cars and 1500 books.", &["1984"]),
        ("From 1914 to 1918, and in the 1930s.", &["1914", "1918", "1930s"]),
        ("Released on 2024-05-06.", &["2024-05-06"]),
        ("May I march? It may be in May.", &["May"]),
    ] {
        let extraction = read(text);
        assert_eq!(names(&extraction), expected, "{text}");
        assert!(extraction.entities.iter().all(|entity| entity.kind == EntityKind::Time), "{text}");
    }
}

#[test]
fn forms_of_a_name_are_one_entity() {
    let extraction = read(
        "Ada Lovelace met Charles Babbage. Lovelace wrote notes, and Babbage read Ada's notes. Mr. \
         Bennet called Mrs. Bennet, and the name Bennet was his.",
    );
    let expected = ["Ada Lovelace", "Charles Babbage", "Mr. Bennet", "Mrs. Bennet", "Bennet"];
    assert_eq!(names(&extraction), expected);
    assert_eq!(extraction.entities[0].mentions.len(), 3);
    assert_eq!(kind(&extraction, "Mrs. Bennet"), Some(EntityKind::Person));
}

#[test]
fn kinds_come_from_the_words_of_a_name_and_around_it() {
    let extraction = read(
        "Captain Ahab sailed from Nantucket on the Red Sea with Starbuck. “No,” said Starbuck. They \
         had met in Lyon, at the Royal Society, where they spoke in English.",
    );
    for (name, expected) in [
        ("Captain Ahab", EntityKind::Person),
        ("Red Sea", EntityKind::Place),
        ("Starbuck", EntityKind::Person),
        ("Lyon", EntityKind::Place),
        ("Royal Society", EntityKind::Organisation),
        ("English", EntityKind::Other),
    ] {
        assert_eq!(kind(&extraction, name), Some(expected), "{name}");
    }
}

#[test]
fn relations_read_as_the_sentence_that_states_them() {
    for (text, expected) in [
        (
            "Ariadne gave a ball of thread to Theseus.",
            &["Ariadne | gave a ball of thread to | Theseus"][..],
        ),
        (
            "Theseus killed the Minotaur, the monster of Crete.",
            &["Theseus | killed | Minotaur", "Minotaur | the monster of | Crete"],
        ),
        (
            "Ada Lovelace was born in London in 1815.",
            &["Ada Lovelace | was born in | London", "Ada Lovelace | was born in London in | 1815"],
        ),
        (
            "Theseus and Ariadne sailed to Naxos.",
            &["Theseus | sailed to | Naxos", "Ariadne | sailed to | Naxos"],
        ),
        (
            "Anna met Boris, and Carla married Dmitri.",
            &["Anna | met | Boris", "Carla | married | Dmitri"],
        ),
        ("Ada's friend Charles came.", &["Ada | friend | Charles"]),
        ("Anna, Boris and Carla came.", &[]),
        ("We know `Encoder`, `Shard` and `Clock`.", &[]),
        ("We know that `Anna` calls `Boris`.", &["Anna | calls | Boris"]),
        ("“Come, Anna!” said Boris.", &[]),
        ("We asked Anna, 'and she knows Boris.'", &[]),
    ] {
        let extraction = read(text);
        assert_eq!(told(&extraction), expected, "{text}");
    }
}

#[test]
fn a_question_makes_its_topics_entities() {
    let text =
        "The golden fleece hung in a grove. Jason took the Fleece home. A dragon watched it.";
    let of = |question: &str| {
        let task = ExtractionTask {
            text: text.to_owned(),
            question: question.to_owned(),
            ..ExtractionTask::default()
        };
        extract(&task)
    };
    assert_eq!(names(&of("")), ["Jason", "Fleece"]);
    let asked = of("Who stole the golden fleece from the dragons?");
    assert_eq!(names(&asked), ["golden fleece", "Jason", "dragon"]);
    assert_eq!(asked.entities[0].mentions.len(), 2);
}

#[test]
fn a_speaker_is_meant_by_i() {
    let task = ExtractionTask {
        text: "I moved to Lyon in 2019. My sister visits me in Paris, and I'm happy.".to_owned(),
        speaker: "Bob".to_owned(),
        ..ExtractionTask::default()
    };
    let extraction = extract(&task);
    assert_eq!(kind(&extraction, "Bob"), Some(EntityKind::Person));
    assert_eq!(extraction.entities[0].mentions.len(), 4);
    assert_eq!(
        told(&extraction),
        [
            "Bob | moved to | Lyon",
            "Bob | moved to Lyon in | 2019",
            "Bob | sister visits me in | Paris"
        ]
    );
}

#[test]
fn nothing_is_found_in_nothing() {
    for text in ["", " \n\t ", "...", "它是红色的。", "\u{301}\u{200d}"] {
        let extraction = read(text);
        assert!(extraction.entities.is_empty() && extraction.relations.is_empty(), "{text:?}");
    }
}

/// Returns texts of the kind that breaks rules about capitals, gaps and dates.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("Ada ".to_owned()),
        Just("Mr. ".to_owned()),
        Just("of the ".to_owned()),
        Just("I'm ".to_owned()),
        Just("and ".to_owned()),
        Just("5 May 1840, ".to_owned()),
        Just("2024-05-06".to_owned()),
        Just("Zoë’s\n".to_owned()),
        Just("ǅ ßA İ\u{307}. ".to_owned()),
        "[a-cA-C .,;“”'’\n-]{0,12}",
        "\\PC{0,8}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn whatever_is_found_stands_in_the_passage(
        text in any_text(),
        question in any_text(),
        speaker in "[A-C]{0,3}",
    ) {
        let task = ExtractionTask { text: text.clone(), question, speaker, background: String::new() };
        let extraction = extract(&task);
        let mut all: Vec<clew_core::Span> = Vec::new();
        for entity in &extraction.entities {
            prop_assert!(!entity.name.trim().is_empty() && !entity.mentions.is_empty());
            prop_assert!(entity.mentions.is_sorted());
            for mention in &entity.mentions {
                prop_assert!(mention.of(&text).is_some_and(|named| !named.is_empty()));
            }
            all.extend(&entity.mentions);
        }
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}", all);
        for relation in &extraction.relations {
            let evidence = relation.evidence.of(&text).expect("a part of the passage");
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert!(words(evidence).contains(&relation.text), "{:?}", relation);
            prop_assert!(!relation.text.is_empty() && relation.head != relation.tail);
            for end in [relation.head, relation.tail] {
                prop_assert!(end < extraction.entities.len());
            }
        }
        prop_assert_eq!(extract(&task), extraction);
    }
}
