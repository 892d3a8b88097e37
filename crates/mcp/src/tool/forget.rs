//! `forget`: forgets documents and turns, after a preview.
//!
//! The preview returns a word, which is a hash of what it showed. The second call has to bring that
//! word and forgets only what it stands for. So an agent cannot forget what it has not looked at,
//! and nothing is forgotten that came or changed after the preview. No gateway keeps anything for
//! it.

use clew_core::{CorpusName, Error, ErrorKind, TurnAddress, TurnId};
use clew_proto::chat::v1::ForgetTurnsRequest;
use clew_proto::ingest::v1::{ForgetDocumentsRequest, ForgetDocumentsResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use super::remember::DEFAULT_USER;
use crate::caller::Caller;

/// Maximum number of documents or turns of a call: as many as a person reads before agreeing.
const ITEMS: usize = 20;
/// Number of turns that are looked for if the call does not say.
const TURNS: u32 = 10;
/// Maximum bytes of the beginning of a text.
const BEGINNING_BYTES: usize = 200;
/// Number of hexadecimal digits of the word for confirming.
const WORD_DIGITS: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    ids: Option<Vec<String>>,
    about: Option<String>,
    user: Option<String>,
    k: Option<u32>,
    confirm: Option<String>,
}

/// What is to be forgotten.
#[derive(Debug, PartialEq)]
enum Wanted {
    Documents(Vec<String>),
    Turns { about: String, user: String, k: u32 },
}

impl Arguments {
    fn wanted(self) -> Result<Wanted, Error> {
        match (self.ids, self.about) {
            (Some(ids), None) if self.user.is_none() && self.k.is_none() => {
                let mut distinct = ids.clone();
                distinct.sort();
                distinct.dedup();
                if !(1..=ITEMS).contains(&ids.len()) || distinct.len() < ids.len() {
                    let problem =
                        format!("expected 1 to {ITEMS} ids, each once, got {}", ids.len());
                    return Err(Error::invalid("ids", problem));
                }
                Ok(Wanted::Documents(ids))
            }
            (None, Some(about)) => {
                let k = self.k.unwrap_or(TURNS);
                if !(1..=ITEMS as u32).contains(&k) {
                    return Err(Error::invalid("k", format!("expected 1 to {ITEMS}, got {k}")));
                }
                let user = self.user.unwrap_or_else(|| DEFAULT_USER.to_owned());
                Ok(Wanted::Turns { about, user, k })
            }
            _ => {
                let problem = "expected either `ids`, or `about` with `user` and `k` if needed";
                Err(Error::invalid("ids", problem))
            }
        }
    }
}

/// What would be forgotten.
#[derive(Debug, Default)]
struct Preview {
    items: Vec<Item>,
    not_found: Vec<String>,
}

#[derive(Debug)]
struct Item {
    id: String,
    version: u64,
    text: String,
    text_bytes: u64,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    mut arguments: Arguments,
) -> Result<Value, Error> {
    let confirm = arguments.confirm.take();
    let wanted = arguments.wanted()?;
    let corpus = caller.corpus(named).await?;
    let ids = match wanted {
        Wanted::Documents(ids) => ids,
        Wanted::Turns { about, user, k } => turns(caller, &corpus, about, user, k).await?,
    };
    let preview = look(caller, &corpus, ids).await?;
    let word = preview.word(&corpus);
    let Some(confirm) = confirm else { return Ok(preview.told(&word)) };
    if preview.items.is_empty() || confirm != word {
        let problem = "expected the word of a preview of just this; nothing was forgotten: call again without `confirm`, and let the user agree to what that returns";
        return Err(Error::invalid("confirm", problem));
    }
    let request = ForgetDocumentsRequest {
        corpus: corpus.to_string(),
        document_ids: preview.items.iter().map(|item| item.id.clone()).collect(),
        ..ForgetDocumentsRequest::default()
    };
    let forgotten = caller.documents().forget_documents(caller.request(request)).await;
    let receipt = forgotten.map_err(|status| caller.failed(&status))?.into_inner();
    Ok(receipt_of(&receipt, preview.not_found))
}

/// Returns the ids of the turns that a search finds.
async fn turns(
    caller: &Caller,
    corpus: &CorpusName,
    about: String,
    user: String,
    k: u32,
) -> Result<Vec<String>, Error> {
    let request = ForgetTurnsRequest {
        corpus: corpus.to_string(),
        user: user.clone(),
        about,
        k,
        preview: true,
        ..ForgetTurnsRequest::default()
    };
    let found = caller.chats().forget_turns(caller.request(request)).await;
    let found = found.map_err(|status| caller.failed(&status))?.into_inner();
    let ids = found.first.into_iter().map(|turn| {
        let turn = TurnId { session: turn.session.parse()?, number: turn.number };
        Ok(TurnAddress { user: user.clone(), turn }.document_id()?.to_string())
    });
    ids.collect()
}

async fn look(caller: &Caller, corpus: &CorpusName, ids: Vec<String>) -> Result<Preview, Error> {
    let mut preview = Preview::default();
    for id in ids {
        match caller.document(corpus, &id).await {
            Ok((document, state)) => {
                let text = String::from_utf8_lossy(&document.text);
                preview.items.push(Item {
                    id,
                    version: state.version,
                    text: text[..text.floor_char_boundary(BEGINNING_BYTES)].to_owned(),
                    text_bytes: state.text_bytes,
                });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => preview.not_found.push(id),
            Err(error) => return Err(error),
        }
    }
    Ok(preview)
}

impl Preview {
    /// Returns the word that stands for these documents in these versions.
    fn word(&self, corpus: &CorpusName) -> String {
        let mut hash = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(corpus.as_str().as_bytes());
        // A search may find the same turns in another order.
        let mut items: Vec<&Item> = self.items.iter().collect();
        items.sort_by(|a, b| a.id.cmp(&b.id));
        for item in items {
            field(item.id.as_bytes());
            field(&item.version.to_le_bytes());
        }
        let mut word = hash.finalize().to_hex().to_string();
        word.truncate(WORD_DIGITS);
        word
    }

    fn told(&self, word: &str) -> Value {
        let item = |item: &Item| json!({ "id": item.id, "text": item.text, "text_bytes": item.text_bytes });
        json!({
            "forgotten": false,
            "confirm": if self.items.is_empty() { "" } else { word },
            "items": self.items.iter().map(item).collect::<Vec<_>>(),
            "not_found": self.not_found,
            "verified": false,
            "snapshots": [],
        })
    }
}

fn receipt_of(receipt: &ForgetDocumentsResponse, mut not_found: Vec<String>) -> Value {
    let (gone, absent): (Vec<_>, Vec<_>) =
        receipt.documents.iter().partition(|document| document.found);
    not_found.extend(absent.into_iter().map(|document| document.document_id.clone()));
    let items = gone.into_iter().map(|document| {
        json!({ "id": document.document_id, "text": "", "text_bytes": document.text_bytes })
    });
    let snapshots = receipt.snapshots.iter().map(|snapshot| &snapshot.snapshot);
    json!({
        "forgotten": true,
        "confirm": "",
        "items": items.collect::<Vec<_>>(),
        "not_found": not_found,
        "verified": receipt.verified,
        "snapshots": snapshots.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use clew_proto::ingest::v1::{ForgottenDocument, HoldingSnapshot};

    use super::*;

    fn wanted(arguments: Value) -> Result<Wanted, Error> {
        serde_json::from_value::<Arguments>(arguments).unwrap().wanted()
    }

    #[test]
    fn a_call_names_either_documents_or_a_subject() {
        let documents = wanted(json!({ "ids": ["a", "b"] })).unwrap();
        assert_eq!(documents, Wanted::Documents(vec!["a".to_owned(), "b".to_owned()]));
        let turns = wanted(json!({ "about": "tea" })).unwrap();
        let expected = Wanted::Turns { about: "tea".to_owned(), user: "default".to_owned(), k: 10 };
        assert_eq!(turns, expected);
        let many: Vec<String> = (0..21).map(|i| i.to_string()).collect();
        for (arguments, field) in [
            (json!({}), "ids"),
            (json!({ "ids": [] }), "ids"),
            (json!({ "ids": ["a", "a"] }), "ids"),
            (json!({ "ids": many }), "ids"),
            (json!({ "ids": ["a"], "about": "tea" }), "ids"),
            (json!({ "ids": ["a"], "user": "ann" }), "ids"),
            (json!({ "about": "tea", "k": 0 }), "k"),
            (json!({ "about": "tea", "k": 21 }), "k"),
        ] {
            let refused = wanted(arguments.clone()).unwrap_err();
            assert_eq!(refused.fields_at_fault(), [field], "{arguments}");
        }
    }

    fn item(id: &str, version: u64) -> Item {
        Item { id: id.to_owned(), version, text: "Bees.".to_owned(), text_bytes: 5 }
    }

    #[test]
    fn a_word_stands_for_one_set_of_versions() {
        let word = |corpus: &str, items: Vec<Item>| {
            Preview { items, ..Preview::default() }.word(&corpus.parse().unwrap())
        };
        let first = word("notes", vec![item("a", 1), item("b", 2)]);
        assert_eq!(first.len(), WORD_DIGITS);
        assert_eq!(word("notes", vec![item("b", 2), item("a", 1)]), first);
        for (corpus, items) in [
            ("other", vec![item("a", 1), item("b", 2)]),
            ("notes", vec![item("a", 1), item("b", 3)]),
            ("notes", vec![item("a", 1)]),
            ("notes", vec![item("a", 1), item("b", 2), item("c", 1)]),
        ] {
            assert_ne!(word(corpus, items), first);
        }
    }

    #[test]
    fn a_preview_of_nothing_has_no_word() {
        let preview = Preview { items: Vec::new(), not_found: vec!["a".to_owned()] };
        let told = preview.told("word");
        assert_eq!((&told["confirm"], &told["not_found"]), (&json!(""), &json!(["a"])));
        let preview = Preview { items: vec![item("a", 1)], not_found: Vec::new() };
        let told = preview.told("word");
        assert_eq!((&told["confirm"], &told["forgotten"]), (&json!("word"), &json!(false)));
    }

    #[test]
    fn a_receipt_names_what_is_gone_and_which_snapshots_are_not() {
        let gone = |id: &str, found| ForgottenDocument {
            document_id: id.to_owned(),
            found,
            text_bytes: 5,
            ..ForgottenDocument::default()
        };
        let receipt = ForgetDocumentsResponse {
            documents: vec![gone("a", true), gone("b", false)],
            verified: true,
            snapshots: vec![HoldingSnapshot { snapshot: "may".to_owned(), ..Default::default() }],
            ..ForgetDocumentsResponse::default()
        };
        let expected = json!({
            "forgotten": true,
            "confirm": "",
            "items": [{ "id": "a", "text": "", "text_bytes": 5 }],
            "not_found": ["c", "b"],
            "verified": true,
            "snapshots": ["may"],
        });
        assert_eq!(receipt_of(&receipt, vec!["c".to_owned()]), expected);
    }
}
