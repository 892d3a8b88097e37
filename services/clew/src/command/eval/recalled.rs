//! Retrieval by the service for conversations: turns are kept and recalled as it does.

use std::collections::HashMap;

use anyhow::{Context, bail};
use clew_chat::TurnId;
use clew_core::{CorpusName, DocumentId};
use clew_eval::{Format, Haystack, KEPT_USER, Question, Report, Run, Tally, UnitKind};
use clew_proto::chat::v1 as wire;
use clew_proto::convert::timestamp_to_wire;
use futures::{StreamExt, TryStreamExt};

use super::{CONCURRENT_QUESTIONS, fill};
use crate::cli::{ChatTime, EvalRetrieval};
use crate::connection::Connection;
use crate::progress::Progress;

/// A report for each unit and use of time.
pub(super) async fn measure(
    connection: &Connection,
    format: &'static Format,
    units: &[UnitKind],
    arguments: &EvalRetrieval,
) -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    let mut progress = Progress::new("questions");
    let mut asked = 0;
    for &unit in units {
        let value = value(unit)?;
        let open = |unit| format.open(&arguments.data, Some(unit), arguments.split.as_deref());
        let all = if format.check(UnitKind::Round, None).is_ok() {
            UnitKind::Round
        } else {
            UnitKind::Turn
        };
        let mut tallies: Vec<Tally> =
            arguments.time.iter().map(|_| Tally::new(arguments.k.clone())).collect();
        // Sessions as units hold one side's words; what is kept are both.
        for (measured, spoken) in open(unit)?.zip(open(all)?) {
            let (measured, spoken) = (measured?, spoken?);
            progress.set(asked, asked + measured.questions.len() as u64, &measured.name);
            let corpus: CorpusName = "haystack".parse()?;
            fill(connection, &corpus, spoken.kept_turns()?, arguments.cutting, None).await?;
            let units = Units::of(&measured);
            for (time, tally) in arguments.time.iter().zip(&mut tallies) {
                let recalling =
                    Recalling { connection, corpus: &corpus, units: &units, value, time: *time };
                let rankings: Vec<(&Question, Vec<DocumentId>)> =
                    futures::stream::iter(&measured.questions)
                        .map(|question| recalling.recall(question, arguments.k.depth()))
                        .buffered(CONCURRENT_QUESTIONS)
                        .try_collect()
                        .await?;
                for (question, ranking) in rankings {
                    tally.add(question, &ranking);
                }
            }
            connection.client.delete_corpus(&corpus).await?;
            asked += measured.questions.len() as u64;
        }
        for (time, tally) in arguments.time.iter().zip(tallies) {
            let run = Run {
                format: format.name.to_owned(),
                unit,
                keys: "as kept".to_owned(),
                merging: "key".to_owned(),
                mode: "hybrid".to_owned(),
                smoothing: "as recalled".to_owned(),
                time: clew_chat::TimeUse::from(*time).as_str().to_owned(),
                strategy: "recall".to_owned(),
            };
            reports.push(tally.report(run)?);
        }
    }
    progress.finish();
    Ok(reports)
}

fn value(unit: UnitKind) -> anyhow::Result<wire::Value> {
    match unit {
        UnitKind::Turn => Ok(wire::Value::Turn),
        UnitKind::Round => Ok(wire::Value::Round),
        UnitKind::Session | UnitKind::SessionAll => Ok(wire::Value::Session),
        UnitKind::Passage | UnitKind::Chat | UnitKind::Document => {
            bail!("--as-turns recalls turns, rounds and sessions, not units of the kind {unit}")
        }
    }
}

/// Which unit a turn is of.
struct Units<'a> {
    by_turn: HashMap<&'a TurnId, &'a DocumentId>,
    by_session: HashMap<&'a DocumentId, &'a DocumentId>,
}

impl<'a> Units<'a> {
    fn of(haystack: &'a Haystack) -> Self {
        let (mut by_turn, mut by_session) = (HashMap::new(), HashMap::new());
        for unit in &haystack.units {
            for turn in &unit.said {
                by_turn.insert(&turn.id, &unit.id);
                by_session.insert(&turn.id.session, &unit.id);
            }
        }
        Self { by_turn, by_session }
    }

    fn unit(&self, turn: &TurnId, value: wire::Value) -> Option<&DocumentId> {
        match value {
            wire::Value::Session => self.by_session.get(&turn.session).copied(),
            _ => self.by_turn.get(turn).copied(),
        }
    }
}

struct Recalling<'a> {
    connection: &'a Connection,
    corpus: &'a CorpusName,
    units: &'a Units<'a>,
    value: wire::Value,
    time: ChatTime,
}

impl Recalling<'_> {
    /// The units that are recalled, best first.
    async fn recall<'q>(
        &self,
        question: &'q Question,
        k: usize,
    ) -> anyhow::Result<(&'q Question, Vec<DocumentId>)> {
        let time = match self.time {
            ChatTime::Boost => wire::TimeUse::Boost,
            ChatTime::Filter => wire::TimeUse::Filter,
            ChatTime::Ignore => wire::TimeUse::Ignore,
        };
        let asked = wire::RecallRequest {
            corpus: self.corpus.to_string(),
            user: KEPT_USER.to_owned(),
            question: question.text.clone(),
            asked_at: question.asked_at.map(timestamp_to_wire),
            k: Some(u32::try_from(k)?),
            value: self.value.into(),
            time: time.into(),
            ..wire::RecallRequest::default()
        };
        let mut items = self.connection.client.recall(asked).await?.items;
        items.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut ranking = Vec::new();
        for item in &items {
            let number = *item.found.first().context("an item without a turn that was found")?;
            let turn = TurnId { session: item.session.parse()?, number };
            let unit = self.units.unit(&turn, self.value);
            ranking.extend(unit.filter(|unit| !ranking.contains(*unit)).cloned());
        }
        Ok((question, ranking))
    }
}
