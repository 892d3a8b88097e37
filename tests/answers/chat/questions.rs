//! Tests of the seven kinds of questions that people ask of conversations ("LongMemEval", section
//! 3.1), each answered without a language model, with the real embedding model.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Home, Ran};

/// Days of May 2024, the role, and what is said: statements of a person among other matters.
const SAID: [(u32, &str, &str); 22] = [
    (1, "user", "I just got back from the shelter: I adopted a cat and named her Ariadne."),
    (1, "assistant", "Congratulations! Keep her in one quiet room for the first days."),
    (1, "user", "How do I get ink stains out of a shirt?"),
    (1, "assistant", "Dab the stain with rubbing alcohol, then wash the shirt in cold water."),
    (3, "user", "I work as a cartographer at the harbour office in Piraeus."),
    (3, "assistant", "That sounds like careful work. What are you mapping at the moment?"),
    (4, "user", "Which restaurants for a birthday dinner would you recommend near the harbour?"),
    (
        4,
        "assistant",
        "For a birthday dinner near the harbour I recommend the restaurant Blue Anchor.",
    ),
    (6, "user", "I bought a road bicycle today for 400 dollars, my first one."),
    (6, "assistant", "Enjoy it! Check the brakes before the first longer ride."),
    (9, "user", "I ran my fastest 5 km today: my personal best for the 5 km run is 27:30 now."),
    (9, "assistant", "Well done. Keep most of your runs slow and easy."),
    (11, "user", "I love documentaries about the sea and I prefer short films to long ones."),
    (11, "assistant", "Noted. There are many short documentaries about the sea."),
    (13, "user", "I bought a bicycle helmet today for 60 dollars."),
    (13, "assistant", "A good decision. Make sure that it sits tightly."),
    (20, "user", "I finished the mosaic of my kitchen floor today."),
    (20, "assistant", "Let the grout dry for two days before you walk on it."),
    (24, "user", "My personal best for the 5 km run is 25:10 now, I beat my old time."),
    (24, "assistant", "That is a great improvement in two weeks."),
    (26, "user", "What is a good way to learn the names of the stars?"),
    (26, "assistant", "Begin with the bright ones of each season and use a rotating chart."),
];

struct Memory {
    home: Home,
}

impl Memory {
    fn new() -> Self {
        let memory = Self { home: Home::new() };
        let line = |(number, (day, role, text)): (usize, &(u32, &str, &str))| {
            let time = format!("2024-05-{day:02}T10:{:02}:00Z", number % 60);
            let session = format!("day-{day:02}");
            json!({ "session": session, "role": role, "text": text, "time": time }).to_string()
        };
        let lines: Vec<String> = SAID.iter().enumerate().map(line).collect();
        let file = memory.home.write("turns.jsonl", lines.join("\n"));
        memory.run(&["append", file.to_str().unwrap()]);
        memory
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let mut command = self.home.clew();
        command.arg("chat").args(arguments).args(["--corpus", "chats", "--user", "ada", "--json"]);
        command.arg("--data-dir").arg(self.home.data_dir()).arg("--model").arg(model());
        Ran::of(command).done()
    }

    fn ask(&self, question: &str) -> Value {
        self.run(&["ask", question, "--asked-at", "2024-05-30T12:00:00Z"])
    }
}

/// Returns the folder of the model that `make setup` installs.
fn model() -> PathBuf {
    let cache = "../../.cache/models/all-MiniLM-L6-v2";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(cache)
}

#[test]
fn the_seven_kinds_of_questions_are_answered_without_a_language_model() {
    let memory = Memory::new();
    for (kind, question, expected) in [
        ("single-session-user", "What did I name the cat that I adopted?", "Ariadne"),
        (
            "single-session-assistant",
            "Which restaurant near the harbour did you recommend for the birthday dinner?",
            "Blue Anchor",
        ),
        (
            "single-session-preference",
            "Can you recommend a documentary for tonight?",
            "prefer short films",
        ),
        ("multi-session", "How much money did I spend on bicycle things in total?", "460"),
        ("knowledge-update", "What is my personal best for the 5 km run now?", "25:10"),
        (
            "temporal-reasoning",
            "How many days passed between the day I bought a road bicycle and the day I bought a \
             bicycle helmet?",
            "7 days",
        ),
    ] {
        let asked = memory.ask(question);
        assert_eq!(asked["outcome"], "answered", "{kind}: {asked}");
        let answer = asked["answer"].as_str().unwrap();
        assert!(answer.contains(expected), "{kind}: {answer}");
        assert!(!asked["citations"].as_array().unwrap().is_empty(), "{kind}: {asked}");
    }
    let asked = memory.ask("What is the name of my dog's veterinarian?");
    assert_eq!(asked["outcome"], "not_in_memory", "abstention: {asked}");
}

#[test]
fn the_latest_statement_is_recalled_first_and_history_on_request() {
    let memory = Memory::new();
    let question = "What is my personal best for the 5 km run?";
    let latest = memory.run(&["recall", question, "-k", "1", "--value", "turn"]);
    assert!(latest["items"][0].to_string().contains("25:10"), "{latest}");
    let both = memory.run(&["recall", question, "--history", "all"]);
    let older = both["items"].as_array().unwrap().iter();
    let superseded: Vec<&Value> =
        older.flat_map(|item| item["superseded"].as_array().unwrap()).collect();
    assert_eq!(superseded.len(), 1, "{both}");
    assert!(superseded[0]["older"]["text"].as_str().unwrap().contains("27:30"));
    assert!(superseded[0]["newer"]["text"].as_str().unwrap().contains("25:10"));
}
