//! Keys of the units of conversations, and the positions of units in their sessions.

use std::collections::HashMap;

use clew_chat::{Key, Smoothing, UnitPosition, key, smoothed, turn_document};
use clew_core::{DocumentId, KeyDesign, Limits, Turn, TurnId};

use super::{Haystack, Unit, UnitDocument};
use crate::Error;

/// Id of the user whose memory a haystack is, if its turns are stored.
pub const KEPT_USER: &str = "user";

impl Haystack {
    /// Returns the haystack with keys of `design`: the title and text of a unit are its key. Units
    /// with an empty key are left out, so that they cannot be found. They remain evidence, and keep
    /// their positions in [`Haystack::places`] of the original haystack.
    ///
    /// # Errors
    /// Returns [`Error::NoTurns`] if the units do not consist of turns and the design is more than
    /// the value.
    pub fn with_keys(&self, design: &KeyDesign) -> Result<Self, Error> {
        if *design == KeyDesign::value() {
            return Ok(self.clone());
        }
        self.check_turns()?;
        let max_title_bytes = Limits::default().title_bytes;
        let mut last: Option<&Turn> = None;
        let mut keyed = Vec::with_capacity(self.units.len());
        for unit in &self.units {
            let before = last.filter(|turn| unit.session() == Some(&turn.id.session));
            let key = key(&unit.said, before, design, max_title_bytes);
            last = unit.said.last();
            if !key.is_empty() {
                let Key { title, text } = key;
                keyed.push(Unit { title, text, ..unit.clone() });
            }
        }
        let (name, questions) = (self.name.clone(), self.questions.clone());
        let without_evidence = self.without_evidence.clone();
        Ok(Self { name, units: keyed, questions, without_evidence })
    }

    /// Returns the units as documents.
    pub fn documents(&self) -> Vec<UnitDocument> {
        let document =
            |unit: &Unit| UnitDocument { unit: unit.id.clone(), document: unit.clone().into() };
        self.units.iter().map(document).collect()
    }

    /// Returns the turns of the units as chat memory stores them, each as a document.
    ///
    /// # Errors
    /// Returns [`Error::NoTurns`] if the units do not consist of turns, and [`Error::NotKept`] if
    /// the name of a session is not valid in chat memory.
    pub fn kept_turns(&self) -> Result<Vec<UnitDocument>, Error> {
        self.check_turns()?;
        let mut kept = Vec::new();
        for unit in &self.units {
            for turn in &unit.said {
                let document = turn_document(turn, KEPT_USER).map_err(|source| Error::NotKept {
                    haystack: self.name.clone(),
                    source: Box::new(source),
                })?;
                kept.push(UnitDocument { unit: unit.id.clone(), document });
            }
        }
        Ok(kept)
    }

    /// Returns the positions of the units in their sessions.
    ///
    /// # Errors
    /// Returns [`Error::NoTurns`] if the units do not consist of turns.
    pub fn places(&self) -> Result<Places<'_>, Error> {
        self.check_turns()?;
        let mut sizes: HashMap<&DocumentId, usize> = HashMap::new();
        let mut places = HashMap::new();
        for unit in &self.units {
            if let Some(session) = unit.session() {
                let size = sizes.entry(session).or_default();
                places.insert(&unit.id, UnitPosition { session, number: *size });
                *size += 1;
            }
        }
        Ok(Places(places))
    }

    fn check_turns(&self) -> Result<(), Error> {
        if self.units.iter().all(|unit| !unit.said.is_empty()) {
            return Ok(());
        }
        Err(Error::NoTurns { haystack: self.name.clone() })
    }
}

impl Unit {
    fn session(&self) -> Option<&DocumentId> {
        let TurnId { session, .. } = &self.said.first()?.id;
        Some(session)
    }
}

/// Positions of the units of a haystack in its sessions, in the order of the data set.
#[derive(Clone, Debug)]
pub struct Places<'a>(HashMap<&'a DocumentId, UnitPosition<'a>>);

impl Places<'_> {
    /// Returns the units that a search found with their scores, by their smoothed scores, best
    /// first. Equal units keep their order.
    pub fn smoothed(&self, found: &[(DocumentId, f32)], smoothing: &Smoothing) -> Vec<DocumentId> {
        let placed = |(unit, score): &(DocumentId, f32)| Some((*self.0.get(unit)?, *score));
        let known: Vec<_> = found.iter().filter_map(placed).collect();
        let units = found.iter().filter(|(unit, _)| self.0.contains_key(unit));
        let mut ranked: Vec<_> = smoothed(&known, smoothing).into_iter().zip(units).collect();
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        ranked.into_iter().map(|(_, (unit, _))| unit.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Files;
    use super::*;

    const CHAT: &str = r#"[{"sample_id":"chat","qa":[],"conversation":{
        "session_1":[
            {"speaker":"Ada","dia_id":"D1:1","text":"I keep bees."},
            {"speaker":"Bo","dia_id":"D1:2","text":"Since when?"},
            {"speaker":"Ada","dia_id":"D1:3","text":"May."}],
        "session_1_date_time":"1:05 pm on 8 May, 2030",
        "session_2":[{"speaker":"Bo","dia_id":"D2:1","text":"I sold my boat."}]}}]"#;

    fn chat() -> Haystack {
        let files = Files::of(&[("locomo.json", CHAT)]);
        files.read("locomo", None, None).unwrap().remove(0)
    }

    fn keyed(design: &str) -> Vec<Unit> {
        chat().with_keys(&design.parse().unwrap()).unwrap().units
    }

    fn titles(design: &str) -> Vec<String> {
        keyed(design).into_iter().map(|unit| unit.title).collect()
    }

    #[test]
    fn expansions_are_titles_of_units() {
        assert_eq!(titles("value"), [""; 4]);
        assert_eq!(titles("value+fact"), ["Ada keep bees.", "", "", "Bo sold Bo's boat."]);
        assert_eq!(titles("date+value"), ["[8 May 2030]", "[8 May 2030]", "[8 May 2030]", ""]);
        assert_eq!(titles("previous+value"), ["", "Ada: I keep bees.", "Bo: Since when?", ""]);
    }

    #[test]
    fn a_design_with_the_value_keeps_the_texts() {
        let chat = chat();
        for design in ["default", "user", "value+fact+summary"] {
            for (unit, keyed) in chat.units.iter().zip(keyed(design)) {
                assert_eq!(keyed.text, unit.text, "{design}");
                assert_eq!(keyed.event_time, unit.event_time, "{design}");
            }
        }
    }

    #[test]
    fn a_unit_without_a_key_cannot_be_found_and_keeps_its_place() {
        let facts = keyed("fact");
        let texts: Vec<(&str, &str)> =
            facts.iter().map(|unit| (unit.id.as_str(), unit.text.as_str())).collect();
        assert_eq!(texts, [("D1:1", "Ada keep bees."), ("D2:1", "Bo sold Bo's boat.")]);
    }

    #[test]
    fn turns_are_kept_as_documents_of_their_units() {
        let kept = chat().kept_turns().unwrap();
        let ids: Vec<_> =
            kept.iter().map(|of| (of.unit.as_str(), of.document.id.as_str())).collect();
        assert_eq!(ids[2], ("D1:3", "user/D1/0000000003"));
        assert_eq!(kept[2].document.text, "Ada: May.");
        assert_eq!(kept[3].document.title, "Bo sold Bo's boat.");
    }

    #[test]
    fn a_turn_beside_a_match_moves_up() {
        let chat = chat();
        let found = [("D1:2", 0.9), ("D2:1", 0.5), ("D1:1", 0.3), ("D1:3", 0.4)]
            .map(|(unit, score)| (unit.parse().unwrap(), score));
        let order = |smoothing| {
            let ranking = chat.places().unwrap().smoothed(&found, smoothing);
            ranking.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let none = Smoothing { previous: 0.0, next: 0.0, session: 0.0 };
        assert_eq!(order(&none), "D1:2 D2:1 D1:3 D1:1");
        assert_eq!(order(&Smoothing { previous: 0.5, ..none }), "D1:2 D1:3 D2:1 D1:1");
    }

    #[test]
    fn data_without_turns_is_refused() {
        let document = r#"{"doc_id":"1","text":"Ada: I keep bees."}"#;
        let files = Files::of(&[("docs.jsonl", document), ("questions.jsonl", "")]);
        let chats = files.read("lihua", None, None).unwrap().remove(0);
        assert!(matches!(chats.places().unwrap_err(), Error::NoTurns { .. }));
        let error = chats.with_keys(&"fact".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("made of turns"), "{error}");
        assert_eq!(chats.with_keys(&"value".parse().unwrap()).unwrap(), chats);
    }
}
