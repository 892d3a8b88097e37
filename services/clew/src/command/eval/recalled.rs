//! Retrieval through the chat service: turns are stored and recalled as the service does.

use std::collections::HashMap;

use anyhow::{Context, bail};
use clew_core::{CorpusName, DocumentId, TimeUse, TurnId};
use clew_eval::{
    DatasetFormat, EvalQuestion, Haystack, KEPT_USER, RetrievalReport, Run, Tally, UnitKind,
};
use clew_proto::chat::v1 as wire;
use clew_proto::convert::timestamp_to_wire;
use futures::{StreamExt, TryStreamExt};

use super::haystack_corpus::{CONCURRENT_QUESTIONS, fill};
use super::retrieval_args::RetrievalArgs;
use crate::connection::Connection;
use crate::progress::Progress;

/// Measures each unit with each use of time, and returns a report for each. Turns are ingested once
/// for all of them.
pub(super) async fn measure(
    connection: &Connection,
    format: &'static DatasetFormat,
    units: &[UnitKind],
    arguments: &RetrievalArgs,
) -> anyhow::Result<Vec<RetrievalReport>> {
    let open = |unit| format.open(&arguments.data, Some(unit), arguments.split.as_deref());
    // A unit that is a session holds only one side's words, but both sides are stored.
    let has_rounds = format.check(UnitKind::Round, None).is_ok();
    let mut measured = Vec::new();
    for &unit in units {
        let tallies: Vec<Tally> =
            arguments.time.iter().map(|_| Tally::new(arguments.k.clone())).collect();
        measured.push((unit, value(unit)?, open(unit)?, tallies));
    }
    let mut progress = Progress::new("questions");
    let mut asked = 0;
    for spoken in open(if has_rounds { UnitKind::Round } else { UnitKind::Turn })? {
        let spoken = spoken?;
        let total = asked + spoken.questions.len() as u64;
        progress.set(asked, total, &spoken.name);
        let corpus: CorpusName = "haystack".parse()?;
        fill(connection, &corpus, spoken.kept_turns()?, arguments.cutting, None).await?;
        for (_, value, haystacks, tallies) in &mut measured {
            let haystack =
                haystacks.next().context("the units of a data set differ in number")??;
            let units = Units::of(&haystack);
            let (value, corpus, units) = (*value, &corpus, &units);
            for (&time, tally) in arguments.time.iter().zip(tallies) {
                let time = TimeUse::from(time);
                let recalling = Recalling { connection, corpus, units, value, time };
                let rankings: Vec<(&EvalQuestion, Vec<DocumentId>)> =
                    futures::stream::iter(&haystack.questions)
                        .map(|question| recalling.recall(question, arguments.k.depth()))
                        .buffered(CONCURRENT_QUESTIONS)
                        .try_collect()
                        .await?;
                for (question, ranking) in rankings {
                    tally.add(question, &ranking);
                }
            }
        }
        connection.client.delete_corpus(&corpus).await?;
        asked = total;
    }
    progress.finish();
    let mut reports = Vec::new();
    for (unit, _, _, tallies) in measured {
        for (time, tally) in arguments.time.iter().zip(tallies) {
            let run = Run {
                format: format.name.to_owned(),
                unit,
                keys: "as kept".to_owned(),
                merging: "key".to_owned(),
                mode: "hybrid".to_owned(),
                smoothing: "as recalled".to_owned(),
                time: TimeUse::from(*time).as_str().to_owned(),
                strategy: "recall".to_owned(),
            };
            reports.push(tally.report(run)?);
        }
    }
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

/// Unit to which each turn and each session belongs.
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
    time: TimeUse,
}

impl Recalling<'_> {
    /// Returns the units that are recalled, best first.
    async fn recall<'q>(
        &self,
        question: &'q EvalQuestion,
        k: usize,
    ) -> anyhow::Result<(&'q EvalQuestion, Vec<DocumentId>)> {
        let asked = wire::RecallRequest {
            corpus: self.corpus.to_string(),
            user: KEPT_USER.to_owned(),
            question: question.text.clone(),
            asked_at: question.asked_at.map(timestamp_to_wire),
            k: Some(u32::try_from(k)?),
            value: self.value.into(),
            time: wire::TimeUse::from(self.time).into(),
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
