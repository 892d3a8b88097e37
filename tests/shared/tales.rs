//! Tales that tests remember, and a language model that answers from one of them.

use clew_core::Document;
use clew_testkit::{ModelReply, ModelRequest};
use serde_json::json;

use crate::client::document;

/// The tale of Crete.
pub const CRETE: &str = "Ariadne gave Theseus a ball of thread. Theseus killed the Minotaur. \
                         Minos ruled Crete. Theseus left Ariadne on Naxos.";

/// Returns the tale of Crete among others.
pub fn tales() -> Vec<Document> {
    let other = |i: u32| {
        let text =
            format!("Tale {i} is of a ship that sailed to port {i}. Its captain was Orso {i}.");
        document(&format!("tale-{i:02}"), text)
    };
    let mut tales: Vec<_> = (0..12).map(other).collect();
    tales.push(document("crete", CRETE));
    tales
}

/// Answers from the first passage that names the Minotaur, in the form that the prompt asks for.
pub fn answer(request: &ModelRequest) -> ModelReply {
    let passages = request.last().to_owned();
    let number = passages.split('[').skip(1).find_map(|passage| {
        let (number, text) = passage.split_once(']')?;
        text.contains("Minotaur").then(|| number.parse::<u32>().ok())?
    });
    let reply = match number {
        Some(number) => json!({
            "notes": [{ "passage": number, "note": "who killed whom" }],
            "suffices": true,
            "answer": "Theseus did.",
            "citations": [{ "passage": number, "quote": "Theseus killed the Minotaur." }],
        }),
        None => json!({ "notes": [], "suffices": false, "answer": "", "citations": [] }),
    };
    ModelReply::Text(reply.to_string())
}
