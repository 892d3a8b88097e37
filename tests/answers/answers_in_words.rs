//! Tests that questions are answered as a person would, without a language model: with the words
//! that answer, or not at all. Half of them have no answer in what was remembered.

use serde_json::Value;

use crate::harness::Home;
use crate::other_models::published_model;

/// Texts of a small company's handbook, by file.
const HANDBOOK: [(&str, &str); 5] = [
    (
        "team.md",
        "Maria leads the on-call rotation. Her deputy is Tomás Alvarez, who joined the company in \
         March 2024. The rotation changes every Monday at nine.",
    ),
    (
        "purchases.md",
        "Purchases over 5,000 EUR need approval by Jonas Weber. Smaller purchases are approved by \
         the head of the department. Invoices are paid within 30 days.",
    ),
    (
        "backups.md",
        "Backups of the database are kept for 35 days. They are stored in Frankfurt. A restore \
         test takes place every quarter.",
    ),
    (
        "travel.md",
        "Employees fly economy class on flights of less than six hours. The company pays up to \
         140 euros for a night in a hotel.",
    ),
    (
        "office.md",
        "Priya adopted a greyhound called Biscuit last spring. The office in Lisbon is closed on \
         public holidays, and its key is kept at the reception.",
    ),
];

/// Questions with what their answers must contain, ignoring case.
const ANSWERED: [(&str, &str); 11] = [
    ("Who approves purchases above 5000 euros?", "Jonas Weber"),
    ("Who leads the on-call rotation?", "Maria"),
    ("How long are backups of the database kept?", "35 days"),
    ("Where are backups stored?", "Frankfurt"),
    ("When did Tomás Alvarez join the company?", "March 2024"),
    ("Who is Maria's deputy?", "Tomás Alvarez"),
    ("How much does the company pay for a night in a hotel?", "140 euros"),
    ("On which day does the rotation change?", "Monday"),
    ("Within how many days are invoices paid?", "30"),
    ("What is the name of Priya's dog?", "Biscuit"),
    ("Which class do employees fly on short flights?", "economy"),
];

/// Questions about the same people and things that the handbook does not answer.
const UNANSWERED: [&str; 11] = [
    "What is Maria's phone number?",
    "Who approves sick leave?",
    "What is Jonas Weber's email address?",
    "How old is Tomás Alvarez?",
    "Who leads the sales team?",
    "Where does Priya live?",
    "How long are log files kept?",
    "How much does the company pay for a taxi?",
    "What is the name of Priya's cat?",
    "When did Jonas Weber join the company?",
    "What did the last restore test cost?",
];

/// Maximum number of bytes of an answer that is words and not a quoted sentence.
const FEW_WORDS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_answered_in_words_and_what_is_not_is_refused() {
    let home = Home::new();
    for (file, text) in HANDBOOK {
        home.write(&format!("handbook/{file}"), text);
    }
    let mut command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg("--data-dir").arg(home.data_dir());
    command.arg("--model").arg(published_model());
    let server = crate::harness::Server::start(command);
    home.run_at(&server, &["ingest", "--corpus", "handbook", "--json", "handbook"]).done();

    let ask = |question: &str| {
        home.run_at(&server, &["ask", "--corpus", "handbook", "--json", question]).json()
    };
    let mut wrong = Vec::new();
    for (question, expected) in ANSWERED {
        let answer = ask(question);
        let text = answer["answer"].as_str().unwrap_or_default();
        let is_right = text.to_lowercase().contains(&expected.to_lowercase());
        if !is_right || text.len() > FEW_WORDS || !is_cited(&answer, text) {
            wrong.push(format!("{question} {answer}"));
        }
    }
    for question in UNANSWERED {
        let answer = ask(question);
        if answer["outcome"] != "not_in_memory" {
            wrong.push(format!("{question} {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(server.terminate().success());
}

/// Returns whether a citation's quote holds the words of the answer.
fn is_cited(answer: &Value, text: &str) -> bool {
    let citations = answer["citations"].as_array().into_iter().flatten();
    citations.filter_map(|citation| citation["quote"].as_str()).any(|quote| quote.contains(text))
}
