//! Tests of the control points of LongMemEval, through the command line and `ChatService`: the keys
//! by which turns are found, how several are merged, what is recalled as one, the use of time, and
//! how passages are read.

use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use super::{USER, file, place, turn};
use crate::harness::{Home, Ran, Server};

const QUESTION: &str = "Which cat did I adopt?";

/// Returns a question with the very words that will be asked, and a statement that is made in
/// passing.
fn said() -> Vec<Value> {
    let by_the_way = "How do I get ink out of a shirt of linen that was washed twice already, and would you use milk or \
                      rather lemon for it? I adopted a cat from the harbour.";
    vec![
        turn("monday", 0, "user", by_the_way),
        turn("monday", 1, "assistant", "Use lemon."),
        turn("tuesday", 0, "user", QUESTION),
        turn("tuesday", 1, "assistant", "You never told me."),
    ]
}

/// Server with a corpus that was created with `options`, against which `clew` runs.
struct Chats {
    home: Home,
    server: Server,
}

impl Chats {
    fn with(settings: &[(&str, String)], options: &[&str]) -> Self {
        let home = Home::new();
        let mut command = home.serve_command();
        command.envs(settings.iter().map(|(key, value)| (*key, value)));
        let server = Server::start(command);
        let chats = Self { home, server };
        let create = ["corpus", "create", "chats", "--no-structure", "--json"];
        chats.run(&[&create[..], options].concat()).done();
        let said = file(&chats.home, "said.jsonl", &said());
        chats.run(&[&["chat", "append"], &USER[..], &["--json", &said]].concat()).done();
        chats
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.home.run_at(&self.server, arguments)
    }

    fn chat(&self, action: &str, more: &[&str]) -> Ran {
        self.run(&[&["chat", action], &USER[..], &["--json", QUESTION], more].concat())
    }

    fn recall(&self, more: &[&str]) -> Vec<Value> {
        self.chat("recall", more).done()["items"].as_array().unwrap().clone()
    }

    /// Returns the place of the best item that is recalled.
    fn best(&self, more: &[&str]) -> (String, Vec<u64>) {
        place(&self.recall(&[more, &["-k", "1"]].concat())[0])
    }

    /// Returns the field at fault and the description of a refused request.
    fn refused(&self, action: &str, more: &[&str]) -> (String, String) {
        let error = self.chat(action, more).error();
        let violation = &error["violations"][0];
        let text = |name: &str| violation[name].as_str().unwrap().to_owned();
        (text("field"), text("description"))
    }
}

#[test]
fn a_question_chooses_among_the_keys_of_its_corpus_and_how_they_are_merged() {
    let chats = Chats::with(&[], &["--chat-keys", "value,fact,date+fact+value"]);
    let (statement, question) =
        (("monday".to_owned(), vec![0, 1]), ("tuesday".to_owned(), vec![0, 1]));
    assert_eq!(chats.best(&["--keys", "value"]), question);
    // The key `fact` finds only the statement made in passing, because a question states nothing.
    assert_eq!(chats.best(&["--keys", "fact"]), statement);
    let by_fact = chats.recall(&["--keys", "fact"]);
    assert!(by_fact.len() == 1 && place(&by_fact[0]) == statement, "{by_fact:?}");
    // Each item is the best by one of the keys. With merged ranks, each key has a say.
    let best = chats.recall(&["--keys", "value,fact"]);
    let ranked = chats.recall(&["--keys", "value,fact", "--merging", "rank"]);
    let score = |items: &[Value], at: &(String, Vec<u64>)| {
        items.iter().find(|item| place(item) == *at).unwrap()["score"].as_f64().unwrap()
    };
    let apart = score(&best, &question) - score(&best, &statement);
    assert!(apart.abs() < 1e-6, "{best:?}");
    assert!(score(&ranked, &statement) > score(&ranked, &question), "{ranked:?}");
    let asked = chats.chat("ask", &["--keys", "fact", "--asked-at", "2024-05-22T10:00:00Z"]).done();
    assert!(asked["trace"].to_string().contains("ada/monday/0000000000"), "{asked}");
    assert!(!asked["trace"].to_string().contains("ada/tuesday"), "{asked}");

    for action in ["recall", "ask"] {
        let (field, problem) = chats.refused(action, &["--keys", "value,summary"]);
        assert_eq!(field, "keys");
        assert!(
            problem.contains("`date+fact+value`") && problem.contains("--chat-keys"),
            "{problem}"
        );
    }
}

#[test]
fn keys_that_a_corpus_does_not_have_are_refused_before_anything_is_done() {
    let chats = Chats::with(&[], &[]);
    assert_eq!(chats.refused("recall", &["--keys", "fact"]).0, "keys");
    assert_eq!(chats.refused("ask", &["--merging", "rank"]).0, "merging");
    // Choosing the defaults explicitly changes nothing.
    let explicit =
        ["--value", "round", "--time", "boost", "--history", "latest", "--merging", "best"];
    assert_eq!(chats.recall(&explicit), chats.recall(&[]));
    for (options, field) in [
        (["--chat-keys", "fact"], "chat.keys"),
        (["--chat-keys", "value,previous+value"], "chat.keys"),
        (["--chat-merging", "rank"], "chat.merging"),
    ] {
        let create = ["corpus", "create", "others", "--json"];
        let error = chats.run(&[&create[..], &options].concat()).error();
        assert_eq!(error["violations"][0]["field"], field, "{error}");
    }
    let listed = chats.run(&["corpus", "list", "--json"]).done();
    assert_eq!(listed["corpora"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn what_a_corpus_is_made_with_holds_where_a_question_does_not_say_otherwise() {
    let chats = Chats::with(&[], &["--chat-value", "turn", "--chat-time", "filter"]);
    // The statement made in passing has both words of the question in the shortest text.
    assert_eq!(chats.best(&[]), ("monday".to_owned(), vec![0]));
    assert_eq!(chats.best(&["--value", "session"]), ("monday".to_owned(), vec![0, 1]));
    let when = ["--asked-at", "2024-05-21T20:00:00Z"];
    let asked = |more: &[&str]| {
        let recall = [&["chat", "recall"], &USER[..], &["--json", "What did I ask yesterday?"]];
        let recalled = chats.run(&[&recall.concat(), &when[..], more].concat()).done();
        let items = recalled["items"].as_array().unwrap().clone();
        items.iter().any(|item| place(item).0 == "tuesday")
    };
    assert!(!asked(&[]));
    assert!(asked(&["--time", "ignore"]));
    let shown = chats.run(&["status", "--corpus", "chats", "--json"]).done();
    assert_eq!(shown["chat"]["value"], "turn", "{shown}");
    assert_eq!(shown["chat"]["notes"], "chain", "{shown}");
}

/// Replies that nothing was found, and infers one day.
fn reads(request: &ModelRequest) -> ModelReply {
    let format = request.body["response_format"].to_string();
    let mut reply = match format.contains("\"suffices\"") {
        true => json!({ "suffices": false, "answer": "", "citations": [] }),
        false => json!({ "reasoning": "so", "start": "2024-05-20", "end": "2024-05-20" }),
    };
    if format.contains("\"notes\"") {
        reply["notes"] = json!([]);
    }
    ModelReply::Text(reply.to_string())
}

#[test]
fn a_model_reads_with_notes_or_at_once_and_passages_as_json_or_as_texts() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(reads);
    let settings = [
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
    ];
    let chats = Chats::with(&settings, &["--chat-layout", "text"]);
    // Returns what the model was shown: whether it was to take notes, and whether passages were
    // JSON.
    let shown = |more: &[&str]| {
        let before = endpoint.requests().len();
        let when = ["--asked-at", "2024-05-22T10:00:00Z"];
        chats.chat("ask", &[&when[..], more].concat()).done();
        let asked = endpoint.requests().split_off(before);
        let prompts: Vec<String> = asked
            .iter()
            .map(|request| request.messages().iter().map(|(_, text)| *text).collect())
            .collect();
        let reading = prompts.iter().find(|prompt| prompt.contains("Passages:")).unwrap().clone();
        let is_json = reading.contains(r#"{"passage": 1, "day": ""#);
        let is_text =
            reading.contains("day, 2024-05-20)\n") || reading.contains("day, 2024-05-21)\n");
        assert_ne!(is_json, is_text, "{reading}");
        ((reading.contains("read the passages one by one and note"), is_json), prompts.len())
    };
    assert_eq!(shown(&[]), ((true, false), 1));
    assert_eq!(shown(&["--layout", "json"]), ((true, true), 1));
    assert_eq!(shown(&["--notes", "direct"]), ((false, false), 1));
    assert_eq!(shown(&["--notes", "direct", "--layout", "json"]), ((false, true), 1));
    // Another prompt infers the time that is asked about.
    assert_eq!(shown(&["--infer", "model", "--notes", "direct", "-k", "1"]).1, 2);
}
