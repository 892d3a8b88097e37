//! Tests of conversations: the memory does not depend on the order in which turns come, is recalled
//! as rounds, and is gone when it is forgotten.

mod controls;
mod questions;

use std::path::Path;

use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use crate::harness::{Home, Ran, Server, eventually, files_below};

const USER: [&str; 4] = ["--corpus", "chats", "--user", "ada"];

fn turn(session: &str, number: u32, role: &str, text: &str) -> Value {
    let time =
        format!("2024-05-{:02}T10:00:{number:02}Z", if session == "monday" { 20 } else { 21 });
    json!({ "session": session, "number": number, "role": role, "text": text, "time": time })
}

fn turns() -> Vec<Value> {
    vec![
        turn("monday", 0, "user", "I moved to Athens because of the museum."),
        turn("monday", 1, "assistant", "Athens has fine museums. How do you like it?"),
        turn("monday", 2, "user", "My cat is called Xqvzkwjb and hates it."),
        turn("monday", 3, "assistant", "Cats take time to get used to a place."),
        turn("tuesday", 0, "user", "Which thread is good for a labyrinth?"),
        turn("tuesday", 1, "assistant", "A red one that does not tear."),
    ]
}

fn file(home: &Home, name: &str, turns: &[Value]) -> String {
    let lines: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    home.write(name, lines).to_str().unwrap().to_owned()
}

fn append(home: &Home, file: &str) -> Value {
    home.run_embedded(&[&["chat", "append"], &USER[..], &["--json", file]].concat()).done()
}

fn list(home: &Home) -> Vec<Value> {
    let listed = home.run_embedded(&[&["chat", "list"], &USER[..], &["--json"]].concat()).done();
    let mut turns = listed["turns"].as_array().unwrap().clone();
    for turn in &mut turns {
        let key = turn.as_object_mut().unwrap().remove("key").unwrap();
        let day = if turn["session"] == "monday" { "[20 May 2024]" } else { "[21 May 2024]" };
        assert!(key.as_str().unwrap().starts_with(day), "{key}");
    }
    turns
}

fn recall(home: &Home, question: &str, more: &[&str]) -> Vec<Value> {
    let asked = [&["chat", "recall"], &USER[..], &["--json", question], more].concat();
    home.run_embedded(&asked).done()["items"].as_array().unwrap().clone()
}

/// Returns the session and the numbers of the turns of an item.
fn place(item: &Value) -> (String, Vec<u64>) {
    let turns = item["turns"].as_array().unwrap().iter();
    let numbers = turns.map(|turn| turn["number"].as_u64().unwrap()).collect();
    (item["session"].as_str().unwrap().to_owned(), numbers)
}

#[test]
fn turns_that_come_late_twice_and_in_any_order_make_the_same_memory() {
    let ordered = Home::new();
    let told = append(&ordered, &file(&ordered, "turns.jsonl", &turns()));
    assert_eq!(told, json!({ "sessions": 2, "appended": 6, "unchanged": 0 }));

    let other = Home::new();
    let mut late = turns();
    late.reverse();
    append(&other, &file(&other, "late.jsonl", &late[..4]));
    // A first delivery with an older text, which the second one corrects.
    let mut wrong = turns();
    wrong[0]["text"] = json!("I moved to Sparta.");
    append(&other, &file(&other, "wrong.jsonl", &wrong[..1]));
    let told = append(&other, &file(&other, "turns.jsonl", &turns()));
    assert_eq!(told, json!({ "sessions": 2, "appended": 2, "unchanged": 4 }));

    assert_eq!(list(&ordered), turns());
    assert_eq!(list(&other), turns());
    for home in [&ordered, &other] {
        let found = recall(home, "What is the cat called?", &["-k", "1"]);
        assert_eq!(
            found.iter().map(place).collect::<Vec<_>>(),
            [("monday".to_owned(), vec![2, 3])]
        );
        assert!(found[0]["turns"][0]["text"].as_str().unwrap().contains("Xqvzkwjb"));
    }
}

#[test]
fn what_is_recalled_is_a_turn_a_round_or_a_session_of_that_user_in_the_order_of_time() {
    let home = Home::new();
    append(&home, &file(&home, "turns.jsonl", &turns()));
    let secret = [turn("monday", 0, "user", "Xqvzkwjb is the name of my cat, too.")];
    let secret = file(&home, "secret.jsonl", &secret);
    let bohumil = ["chat", "append", "--corpus", "chats", "--user", "bohumil", "--json", &secret];
    home.run_embedded(&bohumil).done();

    let question = "What is the cat Xqvzkwjb said to hate?";
    let turn = recall(&home, question, &["--value", "turn", "-k", "1"]);
    assert_eq!(place(&turn[0]), ("monday".to_owned(), vec![2]));
    let session = recall(&home, question, &["--value", "session", "-k", "1"]);
    assert_eq!(place(&session[0]), ("monday".to_owned(), vec![0, 1, 2, 3]));
    let facts = recall(&home, question, &["--value", "facts", "-k", "1"]);
    assert_eq!(place(&facts[0]), ("monday".to_owned(), vec![2, 3]));
    assert_eq!(facts[0]["texts"], json!(["My cat is called Xqvzkwjb and hates it."]));
    assert!(!facts[0]["turns"].to_string().contains("take time"), "{facts:?}");
    let summary = recall(&home, question, &["--value", "summary", "-k", "1"]);
    assert_eq!(place(&summary[0]), ("monday".to_owned(), vec![0, 1, 2, 3]));
    let told = summary[0]["texts"][0].as_str().unwrap();
    assert!(told.contains("moved to Athens") && !told.contains("fine museums"), "{told}");
    let rounds = recall(&home, "thread museum cat", &[]);
    let places: Vec<_> = rounds.iter().map(place).collect();
    assert!(places.is_sorted() && places.len() == 3, "{places:?}");
    assert!(!json!(rounds).to_string().contains("my cat, too"), "{rounds:?}");

    let about_monday = "What did I say of Athens and thread yesterday?";
    let when = ["--asked-at", "2024-05-21T20:00:00Z", "--time", "filter"];
    let yesterday = recall(&home, about_monday, &when);
    assert!(!yesterday.is_empty() && yesterday.iter().all(|item| place(item).0 == "monday"));
    let ever = recall(&home, about_monday, &[when[0], when[1], "--time", "ignore"]);
    assert!(ever.iter().any(|item| place(item).0 == "tuesday"), "{ever:?}");

    let ask = [&["chat", "ask"], &USER[..], &["--json", question]].concat();
    let asked = home.run_embedded(&ask).done();
    let cited = asked["citations"].as_array().unwrap().iter();
    let ids: Vec<&str> = cited.map(|cited| cited["document_id"].as_str().unwrap()).collect();
    assert!(ids.iter().all(|id| id.starts_with("ada/")), "{asked}");
    assert!(asked["trace"].to_string().contains("ada/monday/0000000002"), "{asked}");
}

/// Returns whether a file contains the words.
fn is_kept(data: &Path, words: &str) -> bool {
    files_below(data).iter().any(|(_, bytes)| {
        bytes.windows(words.len()).any(|window| window.eq_ignore_ascii_case(words.as_bytes()))
    })
}

#[test]
fn what_is_forgotten_of_a_conversation_is_in_no_file() {
    let home = Home::new();
    append(&home, &file(&home, "turns.jsonl", &turns()));
    let data = home.data_dir();
    assert!(is_kept(&data, "xqvzkwjb"), "a scan that cannot find it proves nothing");
    let forget = |more: &[&str]| {
        let asked = [&["chat", "forget"], &USER[..], &["--json"], more].concat();
        home.run_embedded(&asked).done()
    };
    let preview = forget(&["--session", "monday", "--number", "2", "--preview"]);
    assert_eq!((&preview["turns"], &preview["verified"]), (&json!(1), &json!(false)));
    assert!(is_kept(&data, "xqvzkwjb"));
    let receipt = forget(&["--session", "monday", "--number", "2"]);
    assert_eq!((&receipt["turns"], &receipt["verified"]), (&json!(1), &json!(true)), "{receipt}");
    assert!(!is_kept(&data, "xqvzkwjb"));
    assert_eq!(list(&home).len(), 5);
    // The rest of its round is still recalled.
    let found = recall(&home, "Cats take time to get used to a place", &["-k", "1"]);
    assert_eq!(place(&found[0]), ("monday".to_owned(), vec![0, 1, 3]));

    let receipt = forget(&["--session", "monday"]);
    assert_eq!((&receipt["turns"], &receipt["sessions"]), (&json!(3), &json!(1)), "{receipt}");
    let receipt = forget(&[]);
    assert_eq!((&receipt["turns"], &receipt["verified"]), (&json!(2), &json!(true)), "{receipt}");
    assert!(list(&home).is_empty());
    assert!(!is_kept(&data, "labyrinth"));
    assert_eq!(forget(&[])["turns"], 0);

    let refused = ["chat", "list", "--corpus", "chats", "--user", "a/b", "--json"];
    assert_eq!(home.run_embedded(&refused).error()["violations"][0]["field"], "user");
}

#[test]
fn turns_are_forgotten_by_attribute_by_time_and_by_what_they_are_about() {
    let home = Home::new();
    let mut all = turns();
    all[0]["attributes"] = json!({ "topic": "travel" });
    all[4]["attributes"] = json!({ "topic": "crafts" });
    append(&home, &file(&home, "turns.jsonl", &all));
    assert_eq!(list(&home), all);
    let forget = |more: &[&str]| {
        let asked = [&["chat", "forget"], &USER[..], &["--json"], more].concat();
        home.run_embedded(&asked)
    };
    let first = |receipt: &Value| {
        let turns = receipt["first"].as_array().unwrap().iter();
        let place =
            |turn: &Value| format!("{} {}", turn["session"].as_str().unwrap(), turn["number"]);
        turns.map(place).collect::<Vec<_>>()
    };
    let crafts = recall(&home, "museum thread cat", &["--where", "topic=crafts"]);
    let places: Vec<_> = crafts.iter().map(place).collect();
    assert_eq!(places, [("tuesday".to_owned(), vec![0, 1])]);
    let cat = ["--about", "the cat Xqvzkwjb hates it", "-k", "1"];
    let preview = forget(&[&cat[..], &["--preview"]].concat()).done();
    assert_eq!(first(&preview), ["monday 2"]);
    assert!(preview["first"][0]["text"].as_str().unwrap().starts_with("My cat"), "{preview}");
    let receipt = forget(&cat).done();
    assert_eq!(
        (first(&receipt), &receipt["verified"]),
        (vec!["monday 2".to_owned()], &json!(true))
    );
    assert!(!is_kept(&home.data_dir(), "xqvzkwjb"));

    let receipt = forget(&["--where", "chat.role=assistant", "--until", "2024-05-21"]).done();
    assert_eq!(first(&receipt), ["monday 1", "monday 3"]);
    let receipt = forget(&["--where", "topic=crafts"]).done();
    assert_eq!(first(&receipt), ["tuesday 0"]);
    let kept: Vec<Value> = list(&home);
    assert_eq!(kept, [all[0].clone(), all[5].clone()]);

    let both = ["--session", "monday", "--number", "1", "--where", "topic=travel"];
    assert_eq!(forget(&both).error()["violations"][0]["field"], "numbers");
    let ours = file(
        &home,
        "ours.jsonl",
        &[json!({ "session": "s", "text": "Hello",
        "attributes": { "chat.user": "bohumil" } })],
    );
    let refused = home.run_embedded(&[&["chat", "append"], &USER[..], &["--json", &ours]].concat());
    assert_eq!(refused.error()["violations"][0]["field"], "turns[0].attributes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_its_corpus_retains_is_forgotten_by_itself() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_RETRIEVER__RETENTION_INTERVAL_SECS", "1");
    let server = Server::start(command);
    let make = ["corpus", "create", "chats", "--no-structure", "--retain-days", "365", "--json"];
    let made = home.run_at(&server, &make).done();
    assert_eq!(made["retention_days"], 365, "{made}");
    let new = json!({ "session": "new", "role": "user", "text": "I like honey." });
    let mut all = turns();
    all.push(new);
    let all = file(&home, "turns.jsonl", &all);
    home.run_at(&server, &[&["chat", "append"], &USER[..], &["--json", &all]].concat()).done();
    eventually("old turns are gone", async || {
        let listed = home.run_at(&server, &[&["chat", "list"], &USER[..], &["--json"]].concat());
        let turns = listed.done()["turns"].as_array().unwrap().clone();
        (turns.len() == 1 && turns[0]["session"] == "new").then_some(())
    })
    .await;
    // They are erased soon after nobody finds them any more.
    eventually("they are erased", async || (!is_kept(&home.data_dir(), "xqvzkwjb")).then_some(()))
        .await;
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn what_the_policy_refuses_is_not_kept() {
    let home = Home::new();
    let config = home.write("clew.toml", "[gateway]\nrefused_phrases = [\"called Xqvzkwjb\"]\n");
    let config = config.to_str().unwrap();
    let asked = file(&home, "turns.jsonl", &turns());
    let append = ["chat", "append", "--json", "--config", config, &asked];
    let refused = home.run_embedded(&[&append[..], &USER[..]].concat());
    assert_eq!(refused.error()["reason"], "CONTENT_REFUSED");
    assert!(list(&home).is_empty());
    assert!(!is_kept(&home.data_dir(), "xqvzkwjb"));
    let fine = file(&home, "fine.jsonl", &turns()[..2]);
    let append = ["chat", "append", "--json", "--config", config, &fine];
    home.run_embedded(&[&append[..], &USER[..]].concat()).done();
    assert_eq!(list(&home).len(), 2);
}

/// Replies as a model that is asked for statements or for a time.
fn listens(request: &ModelRequest) -> ModelReply {
    let format = request.body["response_format"].to_string();
    let reply = if format.contains("\"facts\"") {
        let facts = match request.last().contains("Xqvzkwjb") {
            true => vec!["The user has a cat that dislikes museums."],
            false => vec![],
        };
        json!({ "facts": facts })
    } else {
        json!({ "reasoning": "it says so", "start": "2024-05-21", "end": "2024-05-21" })
    };
    ModelReply::Text(reply.to_string())
}

#[test]
fn a_model_finds_facts_and_times_where_it_is_asked_to() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(listens);
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.clew();
        command.arg("chat").args(arguments).args(USER).arg("--json");
        command.arg("--data-dir").arg(home.data_dir()).arg("--model").arg(home.model());
        command.env("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url());
        command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "test");
        Ran::of(command).done()
    };
    let all = file(&home, "turns.jsonl", &turns());
    run(&["append", "--infer", "model", &all]);
    let listed = run(&["list", "--session", "monday"]);
    assert_eq!(
        listed["turns"][2]["key"],
        "[20 May 2024] The user has a cat that dislikes museums."
    );
    assert_eq!(listed["turns"][0]["key"], "[20 May 2024]");
    let asked = endpoint.requests().len();
    let again = run(&["append", "--infer", "model", &all]);
    assert_eq!((&again["appended"], &again["unchanged"]), (&json!(0), &json!(6)));
    assert_eq!(endpoint.requests().len(), asked, "what is kept is not heard again");

    let when = ["--asked-at", "2024-05-22T10:00:00Z", "--time", "filter", "--infer", "model"];
    let recalled = run(&[&["recall", "What about the day before?"], &when[..]].concat());
    assert_eq!(recalled["from"], "2024-05-21T00:00:00Z");
    let items = recalled["items"].as_array().unwrap();
    assert!(!items.is_empty() && items.iter().all(|item| place(item).0 == "tuesday"), "{recalled}");
    assert!(recalled["cost"]["model_calls"].as_u64().unwrap() > 0, "{recalled}");
}
