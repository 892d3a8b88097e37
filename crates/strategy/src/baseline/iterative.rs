//! `iterative`: search, judge, search for what is missing.

use async_trait::async_trait;
use clew_core::{Answer, Error, TraceEvent};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of searches.
const MOST_SEARCHES: usize = 4;

/// Strategy that alternates retrieval and judgement without structured memory ("Interleaving
/// Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions", IRCoT,
/// section 3). The next search is for what the judge finds missing in everything found so far. It
/// ends when nothing is missing, when the missing part was searched for before, or after
/// [`MOST_SEARCHES`].
#[derive(Clone, Copy, Debug)]
pub struct Iterative;

#[async_trait]
impl Strategy for Iterative {
    fn name(&self) -> &'static str {
        "iterative"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let mut rankings = Vec::new();
        let mut asked = vec![question.text.clone()];
        let evidence = loop {
            let query = work.query(asked[asked.len() - 1].clone(), k);
            rankings.push(work.search(query).await?);
            let mut pool = Pool::default();
            rankings.iter().for_each(|ranking| pool.add(ranking.clone(), 1.0));
            let evidence = pool.best(k);
            if asked.len() == MOST_SEARCHES {
                break evidence;
            }
            let deadline = work.deadline();
            let judged = seams.navigator.judge(&question.text, &evidence, deadline).await?;
            work.spend(judged.cost);
            work.trace(TraceEvent::Reflected {
                suffices: judged.suffices,
                missing: judged.missing.clone(),
                reason: judged.reasoning,
            });
            let missing = judged.missing.trim().to_owned();
            if judged.suffices || missing.is_empty() || asked.contains(&missing) {
                break evidence;
            }
            asked.push(missing);
        };
        let reading = work.read(&evidence).await?;
        Ok(work.conclude(reading))
    }
}
