//! LongMemEval (Wu et al., ICLR 2025): questions about a user's history of assistant sessions.
//!
//! Records are `{question_id, question_type, question, answer, question_date, haystack_session_ids,
//! haystack_dates, haystack_sessions, answer_session_ids}`; each is a haystack with one question. A
//! session is an array of turns `{role, content, has_answer}`. The records come as the authors'
//! arrays (`longmemeval_s.json`, `longmemeval_oracle.json`), as lines (`oracle.jsonl`), or with the
//! sessions, many of which haystacks share, in a file of their own: `s_questions.jsonl` beside
//! `s_sessions.jsonl` `{session_id, turns}`.
//!
//! Conventions: the paper leaves abstention questions out of retrieval scores, so `all` does too;
//! most leaderboards keep them, as the group `with-abstention` does. A session that occurs twice in
//! a haystack counts once, at its first date. In the paper, a model judges the answers; an answer
//! to an abstention question says what is missing.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use clew_chat::rounds;
use clew_core::{
    Attributes, DocumentId, GradingRule, Judging, SpeakerRole, Timestamp, Turn, TurnId,
};
use serde::Deserialize;

use super::answer::Answer;
use super::files::{first_of, folder_of};
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind, dates};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "longmemeval",
    units: &[UnitKind::Session, UnitKind::SessionAll, UnitKind::Round, UnitKind::Turn],
    splits: &["s", "m", "oracle"],
    has_evidence: true,
    open,
};

/// File names by split, preferred ones first.
const FILES: [(&str, &[&str]); 3] = [
    ("s", &["s_questions.jsonl", "longmemeval_s.json", "longmemeval_s_cleaned.json"]),
    ("m", &["m_questions.jsonl", "longmemeval_m.json", "longmemeval_m_cleaned.json"]),
    ("oracle", &["oracle.jsonl", "longmemeval_oracle.json"]),
];

/// Endings of a file of questions whose sessions are in a file of their own, and of that file.
const QUESTIONS_ENDING: &str = "_questions.jsonl";
const SESSIONS_ENDING: &str = "_sessions.jsonl";

const ABSTENTION: &str = "abstention";
const WITH_ABSTENTION: &str = "with-abstention";

#[derive(Deserialize)]
struct InstanceRecord {
    question_id: String,
    question_type: String,
    question: String,
    question_date: String,
    answer: Option<Answer>,
    haystack_session_ids: Vec<DocumentId>,
    haystack_dates: Vec<String>,
    haystack_sessions: Option<Vec<Vec<TurnRecord>>>,
    answer_session_ids: Vec<DocumentId>,
}

#[derive(Deserialize)]
struct SessionRecord {
    session_id: DocumentId,
    turns: Vec<TurnRecord>,
}

#[derive(Deserialize)]
struct TurnRecord {
    role: String,
    content: String,
    has_answer: Option<bool>,
}

type Sessions = HashMap<DocumentId, Vec<TurnRecord>>;

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let file = instances_of(source)?;
    let sessions = match sessions_beside(&file) {
        Some(sessions) => read_sessions(&sessions)?,
        None => Sessions::new(),
    };
    let unit = source.unit;
    let records = Records::<InstanceRecord>::open(&file)?;
    Ok(Box::new(records.map(move |record| {
        let record = record?;
        haystack(record.value, &sessions, unit)
            .map_err(|problem| Error::malformed(&file, record.line, problem))
    })))
}

fn instances_of(source: Source<'_>) -> Result<PathBuf, Error> {
    if source.path.is_file() && source.split.is_none() {
        return Ok(source.path.to_owned());
    }
    let wanted = FILES.iter().filter(|(split, _)| source.split.is_none_or(|name| name == *split));
    let names: Vec<_> = wanted.flat_map(|(_, names)| names.iter().copied()).collect();
    first_of(folder_of(source.path), &names).ok_or_else(|| {
        source.unknown_layout(FORMAT.name, format!("one of `{}`", names.join("`, `")))
    })
}

fn sessions_beside(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy();
    let stem = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(QUESTIONS_ENDING)?;
    first_of(folder_of(file), &[&format!("{stem}{SESSIONS_ENDING}")])
}

fn read_sessions(path: &Path) -> Result<Sessions, Error> {
    Records::<SessionRecord>::open(path)?
        .map(|record| record.map(|record| (record.value.session_id, record.value.turns)))
        .collect()
}

/// Session as it occurs in one haystack.
struct Dated<'a> {
    id: &'a DocumentId,
    time: Timestamp,
    turns: &'a [TurnRecord],
}

fn haystack(record: InstanceRecord, stored: &Sessions, unit: UnitKind) -> Result<Haystack, String> {
    let sessions = dated_sessions(&record, stored)?;
    let answers: HashSet<_> = record.answer_session_ids.iter().collect();
    let (mut units, mut gold) = (Vec::new(), Vec::new());
    for session in &sessions {
        for cut in cut(session, unit, answers.contains(session.id))? {
            if cut.is_evidence {
                gold.push(cut.unit.id.clone());
            }
            units.push(cut.unit);
        }
    }
    let is_abstention = record.question_id.ends_with("_abs");
    let groups = if is_abstention { &[WITH_ABSTENTION][..] } else { &["all", WITH_ABSTENTION] };
    let question = EvalQuestion {
        id: record.question_id.clone(),
        text: record.question,
        scoring: Scoring::Judged(Judging::Grade(rule(&record.question_type))),
        kind: if is_abstention { ABSTENTION.to_owned() } else { record.question_type },
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        gold,
        asked_at: Some(time(&record.question_date)?),
        is_abstention,
        references: record.answer.and_then(Answer::into_text).into_iter().collect(),
    };
    Ok(Haystack::new(record.question_id, units, vec![question]))
}

/// Returns the grading rule for a type of questions (appendix A.4, figure 10).
fn rule(question_type: &str) -> GradingRule {
    match question_type {
        "temporal-reasoning" => GradingRule::TimeReasoning,
        "knowledge-update" => GradingRule::KnowledgeUpdate,
        "single-session-preference" => GradingRule::Preference,
        _ => GradingRule::Complete,
    }
}

fn dated_sessions<'a>(
    record: &'a InstanceRecord,
    stored: &'a Sessions,
) -> Result<Vec<Dated<'a>>, String> {
    let ids = &record.haystack_session_ids;
    let inline = record.haystack_sessions.as_deref();
    let (dates, bodies) = (record.haystack_dates.len(), inline.map_or(ids.len(), <[_]>::len));
    if dates != ids.len() || bodies != ids.len() {
        return Err(format!(
            "expected as many `haystack_dates` and `haystack_sessions` as `haystack_session_ids`, \
             got {dates}, {bodies} and {}",
            ids.len()
        ));
    }
    let mut seen = HashSet::new();
    let mut sessions = Vec::new();
    for (index, (id, date)) in ids.iter().zip(&record.haystack_dates).enumerate() {
        if !seen.insert(id) {
            continue;
        }
        let turns = match inline {
            Some(bodies) => &bodies[index],
            None => stored.get(id).ok_or_else(|| {
                format!(
                    "the session `{id}` is neither in `haystack_sessions` nor in the file \
                     `*{SESSIONS_ENDING}` beside this one"
                )
            })?,
        };
        sessions.push(Dated { id, time: time(date)?, turns });
    }
    Ok(sessions)
}

struct Cut {
    unit: Unit,
    is_evidence: bool,
}

/// Cuts a session into units. A whole session is evidence if the question names it; a part, if one
/// of its turns is marked.
fn cut(session: &Dated<'_>, unit: UnitKind, is_answer: bool) -> Result<Vec<Cut>, String> {
    let turns = session.said()?;
    let has_answer = |turn: &Turn| session.turns[turn.id.number as usize].has_answer == Some(true);
    let parts: Vec<Vec<Turn>> = match unit {
        UnitKind::Round => rounds(turns).into_iter().map(|round| round.turns).collect(),
        UnitKind::Turn => turns.into_iter().map(|turn| vec![turn]).collect(),
        UnitKind::Session
        | UnitKind::SessionAll
        | UnitKind::Passage
        | UnitKind::Chat
        | UnitKind::Document => {
            let heard = |turn: &Turn| unit != UnitKind::Session || turn.role == SpeakerRole::User;
            let said = turns.into_iter().filter(heard).collect();
            return Ok(vec![Cut {
                unit: session.unit(session.id.clone(), said),
                is_evidence: is_answer,
            }]);
        }
    };
    (1..)
        .zip(parts)
        .map(|(number, part)| {
            let id = format!("{}:{number}", session.id).parse();
            let id = id.map_err(|error: clew_core::Error| error.to_string())?;
            Ok(Cut { is_evidence: part.iter().any(has_answer), unit: session.unit(id, part) })
        })
        .collect()
}

impl Dated<'_> {
    /// Returns the turns, numbered from 0.
    fn said(&self) -> Result<Vec<Turn>, String> {
        let said = |(index, turn): (usize, &TurnRecord)| {
            Ok(Turn {
                id: TurnId {
                    session: self.id.clone(),
                    number: u32::try_from(index).map_err(|error| error.to_string())?,
                },
                speaker: String::new(),
                role: if turn.role == "user" { SpeakerRole::User } else { SpeakerRole::Assistant },
                text: turn.content.clone(),
                time: Some(self.time),
                attributes: Attributes::new(),
            })
        };
        self.turns.iter().enumerate().map(said).collect()
    }

    fn unit(&self, id: DocumentId, said: Vec<Turn>) -> Unit {
        let texts: Vec<_> = said.iter().map(|turn| turn.text.as_str()).collect();
        let (title, text) = (String::new(), texts.join("\n"));
        Unit { id, title, text, event_time: Some(self.time), said }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    dates::slashed(text)
        .ok_or_else(|| format!("expected a date such as `2023/05/20 (Sat) 02:21`, got `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids, texts};
    use super::*;

    const GARDEN: &str = r#"[{"role":"user","content":"I planted figs."},
        {"role":"assistant","content":"Lovely."},
        {"role":"user","content":"Twelve of them.","has_answer":true},
        {"role":"assistant","content":"So many."}]"#;
    const TRIP: &str =
        r#"[{"role":"assistant","content":"Hello."},{"role":"user","content":"Off to sea."}]"#;

    fn instance(id: &str, sessions: Option<&str>) -> String {
        let sessions = sessions.map_or(String::new(), |s| format!(r#""haystack_sessions":{s},"#));
        format!(
            r#"{{"question_id":"{id}","question_type":"single-session-user","question":"How many figs?",
            "question_date":"2030/02/01 (Fri) 10:00","answer":12,{sessions}
            "haystack_session_ids":["trip","garden","trip"],"answer_session_ids":["garden"],
            "haystack_dates":["2030/01/01 (Tue) 08:00","2030/01/02 (Wed) 08:00","2030/01/03 (Thu) 08:00"]}}"#
        )
    }

    fn normalised() -> Files {
        let sessions = format!(
            "{{\"session_id\":\"garden\",\"turns\":{GARDEN}}}\n{{\"session_id\":\"trip\",\"turns\":{TRIP}}}"
        );
        let questions = format!("{}\n{}", instance("q1", None), instance("q2_abs", None));
        Files::of(&[("s_questions.jsonl", &questions), ("s_sessions.jsonl.gz", &sessions)])
    }

    #[test]
    fn each_unit_has_its_text_and_its_gold() {
        let files = normalised();
        // Each case: unit, ids, texts and gold, with `/` between items.
        let cases = [
            ("session", "trip/garden", "Off to sea./I planted figs.\nTwelve of them.", "garden"),
            (
                "session-all",
                "trip/garden",
                "Hello.\nOff to sea./I planted figs.\nLovely.\nTwelve of them.\nSo many.",
                "garden",
            ),
            (
                "round",
                "trip:1/trip:2/garden:1/garden:2",
                "Hello./Off to sea./I planted figs.\nLovely./Twelve of them.\nSo many.",
                "garden:2",
            ),
            (
                "turn",
                "trip:1/trip:2/garden:1/garden:2/garden:3/garden:4",
                "Hello./Off to sea./I planted figs./Lovely./Twelve of them./So many.",
                "garden:3",
            ),
        ];
        for (unit, unit_ids, unit_texts, evidence) in cases {
            let haystacks = files.read("longmemeval", Some(unit), None).unwrap();
            assert_eq!(haystacks.len(), 2, "{unit}");
            assert_eq!(ids(&haystacks[0]).join("/"), unit_ids, "{unit}");
            assert_eq!(texts(&haystacks[0]).join("/"), unit_texts, "{unit}");
            assert_eq!(gold(&haystacks[0], "q1").join("/"), evidence, "{unit}");
        }
    }

    #[test]
    fn times_are_those_of_this_haystack() {
        let haystack = normalised().read("longmemeval", None, None).unwrap().remove(0);
        assert_eq!(haystack.units[0].event_time, "2030-01-01T08:00:00Z".parse().ok());
        assert_eq!(haystack.questions[0].asked_at, "2030-02-01T10:00:00Z".parse().ok());
    }

    #[test]
    fn abstention_is_outside_of_all() {
        let haystacks = normalised().read("longmemeval", None, None).unwrap();
        let (plain, abstention) = (&haystacks[0].questions[0], &haystacks[1].questions[0]);
        assert_eq!(
            (&*plain.kind, plain.groups.join(" ")),
            ("single-session-user", "all with-abstention".to_owned())
        );
        assert_eq!(
            (&*abstention.kind, abstention.groups.join(" ")),
            ("abstention", "with-abstention".to_owned())
        );
        assert!(abstention.is_abstention && !plain.is_abstention);
        assert_eq!(
            (plain.references.join(" "), haystacks[1].answerable().count()),
            ("12".to_owned(), 1)
        );
    }

    #[test]
    fn what_counts_as_right_follows_the_type() {
        for (kind, expected) in [
            ("single-session-user", GradingRule::Complete),
            ("temporal-reasoning", GradingRule::TimeReasoning),
            ("knowledge-update", GradingRule::KnowledgeUpdate),
            ("single-session-preference", GradingRule::Preference),
        ] {
            let sessions = format!("[{TRIP},{GARDEN},{TRIP}]");
            let whole = instance("q1", Some(&sessions)).replace("single-session-user", kind);
            let files = Files::of(&[("oracle.jsonl", &whole.replace('\n', " "))]);
            let haystack = files.read("longmemeval", None, None).unwrap().remove(0);
            let scoring = &haystack.questions[0].scoring;
            assert_eq!(*scoring, Scoring::Judged(Judging::Grade(expected)), "{kind}");
        }
    }

    #[test]
    fn the_authors_arrays_and_lines_are_read_alike() {
        let whole = instance("q1", Some(&format!("[{TRIP},{GARDEN},{TRIP}]")));
        let array = format!("[{whole},\n{whole}]");
        let layouts: [(&str, &str, Option<&str>); 3] = [
            ("longmemeval_s.json", &array, None),
            ("longmemeval_oracle.json", &array, Some("oracle")),
            ("oracle.jsonl.gz", &format!("{whole}\n{whole}"), Some("oracle")),
        ];
        let expected = normalised().read("longmemeval", None, None).unwrap().remove(0);
        for (name, contents, split) in layouts {
            let files = Files::of(&[(name, contents)]);
            for path in [files.folder(), &files.path(name)] {
                let haystacks = files.read_at(path, "longmemeval", None, split).unwrap();
                assert_eq!(haystacks, [expected.clone(), expected.clone()], "{name}");
            }
        }
    }

    #[test]
    fn broken_instances_are_refused_with_their_line() {
        let good = instance("q1", Some(&format!("[{TRIP},{GARDEN},{TRIP}]"))).replace('\n', " ");
        let cases = [
            (good.replace("2030/02/01", "someday"), "expected a date"),
            (
                good.replace(
                    r#""haystack_dates":["2030/01/01 (Tue) 08:00","#,
                    r#""haystack_dates":["#,
                ),
                "as many",
            ),
            (instance("q1", None).replace('\n', " "), "`trip`"),
            (good.replace(r#""role":"user","#, ""), "role"),
        ];
        for (bad, problem) in cases {
            let files =
                Files::of(&[("oracle.jsonl", &format!("{}\n{bad}", good.replace('\n', " ")))]);
            let error = files.read("longmemeval", None, None).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn a_folder_without_the_split_is_refused() {
        let error = normalised().read("longmemeval", None, Some("oracle")).unwrap_err();
        assert!(matches!(error, Error::UnknownLayout { .. }), "{error:?}");
    }
}
