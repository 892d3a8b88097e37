//! `linked`: rank what a search finds, and what that names.
//!
//! The question "where was the director of the film born?" needs two passages, and it resembles
//! only the first of them. The first passage names what the second is about. So each passage is
//! ranked by itself and by the best passage that names it:
//!
//! ```text
//! H(p)     = 0.7 * cosine(question, p)  +  0.3 * bm25(question, p) / greatest bm25 found
//! S0(p)    = H(p)  +  0.5  if the question names the title of p's document
//! L(p)     = greatest  weight(a -> p) * S0(a)  of the links from the 3 passages a of highest S0
//! score(p) = S0(p)  +  0.6 * L(p)
//! ```
//!
//! A passage links to what its text names ([`GraphQuery::texts`](clew_core::GraphQuery)). If the
//! name is the title of a document, it links to that document with weight 1. Otherwise it links
//! with weight 1 / n to each of the n segments that mention the name, unless the name is a hub
//! ([`HUB_SEGMENTS`]). It does not link over names of the question, which the search has already
//! used, nor over the title of its own document. Dates link only as titles: two passages about 1985
//! have nothing else in common.
//!
//! A question takes one search, up to four queries to the graph for names and two for texts, no
//! language model, and no embedding except the question's. A filter by attributes or time takes
//! another search.
//!
//! # Origin
//!
//! This is the bipartite graph of entities and segments of QRMeM ("QRMeM: Unleash the Length
//! Limitation through Question then Reflection Memory Mechanism", section 2.1), walked one step
//! from the best passages. QRMeM asks a language model which entities to try; here the weights
//! decide. The weight 1 / n is the node specificity of HippoRAG ("HippoRAG: Neurobiologically
//! Inspired Long-Term Memory for Large Language Models", section 2.3). HippoRAG's personalised
//! PageRank goes beyond one step, and found less in the measurement below. Neither uses the fact
//! that a title says what a document is about.
//!
//! # Measurement
//!
//! The table shows how often the first five passages hold everything needed, in percent of a set's
//! questions, as the mean of the sets. There are 201 questions over four public sets of two or more
//! hops (HotpotQA, two of MuSiQue, 2WikiMultihopQA):
//!
//! | ranking | mean |
//! |---|---|
//! | reciprocal rank fusion of cosine and BM25 | 34.3 |
//! | H | 38.3 |
//! | S0 | 40.3 |
//! | PageRank from the question's names and the best passages | 45.3 |
//! | score; no title links, names that are titles lead to what mentions them | 67.1 |
//! | score; title links only | 65.5 |
//! | score; the question's names count for nothing | 65.0 |
//! | score, of all passages (by set: 94, 46, 50, 96) | 71.5 |
//! | score, where only 100 passages that a search finds have cosine and BM25 | 68.5 |
//!
//! The constants were chosen on the same questions, so new questions will do worse. A set has about
//! 50 questions, so the mean is accurate to about 2.5. The constants lie on a plateau: changing any
//! one of them within the range that its documentation names changes the mean by at most 1.5.
//!
//! # Differences from the measured ranking
//!
//! - In the measurement, passages were whole documents. Here, only one passage of a named document
//!   counts: the one of highest H, else its first segment.
//! - H of a passage that the search did not find is 0.7 times the lowest cosine that it found,
//!   since the real value would take another search. The last line of the table measures this.
//! - In the measurement, a title such as "Paris, Texas" was also known by the part before the
//!   comma, at half the weight. The graph does not know such a part. That costs 0.5.
//! - The graph takes a surname alone for every entity that it may mean.
//! - BM25 scores of different shards have different scales, which is ignored.
//!
//! # Limits
//!
//! - It makes one step by links. If three or four hops are needed, the passages in between must be
//!   among the three best by themselves, or the navigator must name what is missing.
//! - It does not see that two names mean one thing unless the graph does: "the First Lady", a
//!   maiden name, an inflected form.
//! - It does not pass through hubs: a name that hundreds of segments mention distinguishes nothing.
//!
//! # Trace
//!
//! [`TraceEvent::EdgeFollowed`] reports for each returned passage the link that led to it, if any:
//! `head` and `to` are the titles of both documents, or else their ids, `tail` is the name, and
//! `score` is what the link added.
//!
//! A filter applies to passages and links, as in QRMeM's navigations.

mod link;
mod passage;
#[cfg(test)]
mod tests;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use clew_core::{
    Answer, DocumentId, EntityKey, EntityNode, Error, Evidence, GraphQuery, Reading, SegmentId,
    TraceEvent,
};

pub use self::weights::{COSINE_SHARE, HUB_SEGMENTS, LINK_WEIGHT, MOST_SOURCES, NAMED_BONUS};

use self::link::{Candidate, Target, names_of, wanted};
use self::passage::{Link, Passages};
use crate::admitted::Admitted;
use crate::direct::DEFAULT_K;
use crate::pool::Pool;
use crate::work::{Work, overlap, supports_an_answer};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Number of passages that the search finds. 30 to 200 rank equally well. With more, more of the
/// passages that links lead to have known scores.
const HITS: usize = 100;

/// Maximum number of names of the question, and of a passage.
const MAX_NAMES: (usize, usize) = (32, 256);

/// Maximum number of segments that are read to find out where links lead.
const MAX_TARGETS: usize = 200;

/// Maximum number of searches for what is missing after the first search and its links.
const MOST_HOPS: usize = 2;

/// Strategy that ranks passages by themselves and by the best passage that names what they are
/// about: graph retrieval for chains of facts without a language model.
///
/// S0 of a passage is [`COSINE_SHARE`] of its cosine, plus the remaining share of its BM25 score
/// relative to the greatest one, plus [`NAMED_BONUS`] if the question names its title. The score is
/// S0 plus [`LINK_WEIGHT`] times the S0 of the best of [`MOST_SOURCES`] passages that name it: in
/// full if the name is its title, otherwise divided by the number of segments that mention the
/// name, if they are at most [`HUB_SEGMENTS`].
///
/// If that does not answer the question, it searches for what the navigator finds missing, such as
/// a name that was found on the way, and reads again, at most twice.
///
/// This is QRMeM's bipartite graph of entities and segments, walked one step, with HippoRAG's node
/// specificity as weights. On four public multi-hop sets (2WikiMultihopQA, HotpotQA, MuSiQue twice;
/// 201 questions) the first five passages hold everything needed for 71.5 percent of the questions,
/// against 34.3 for reciprocal rank fusion, and for 68.5 percent if scores are known of only 100
/// passages, as here. It makes one step by links, so it misses chains of three and four hops,
/// different names for one thing, and names that everything mentions. `linked.rs` has the details.
#[derive(Clone, Copy, Debug)]
pub struct Linked;

#[async_trait]
impl Strategy for Linked {
    fn name(&self) -> &'static str {
        "linked"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let query = work.query(question.text.clone(), HITS.max(k));
        let hits = work.search(query).await?;
        let admitted = Admitted::find(&mut work).await?;
        let mut passages = Passages::of(hits);
        let named = named_by_question(&mut work, &admitted, &mut passages).await?;
        link(&mut work, &admitted, &named, &mut passages).await?;
        let evidence = best(&work, passages, k);
        let reading = work.read(&evidence).await?;
        let reading = hop(&mut work, evidence, k, reading).await?;
        Ok(work.conclude(reading))
    }
}

/// Searches for what the navigator finds missing, and reads what is found together with `evidence`,
/// until a reading answers, nothing new is missing, or [`MOST_HOPS`] searches were made.
async fn hop(
    work: &mut Work<'_>,
    mut evidence: Vec<Evidence>,
    k: usize,
    mut reading: Reading,
) -> Result<Reading, Error> {
    let mut asked: Vec<String> = vec![work.question.text.clone()];
    while !supports_an_answer(&reading) && !evidence.is_empty() && asked.len() <= MOST_HOPS {
        let read = work.within_tokens(&evidence);
        let navigator = work.seams.navigator;
        let judged = navigator.judge(&work.question.text, read, work.deadline()).await?;
        work.spend(judged.cost);
        let missing = judged.missing.trim().to_owned();
        work.trace(TraceEvent::Reflected {
            suffices: judged.suffices,
            reason: judged.reasoning,
            missing: judged.missing,
        });
        if judged.suffices || missing.is_empty() || asked.contains(&missing) {
            break;
        }
        let found = work.search(work.query(missing.clone(), k)).await?;
        asked.push(missing);
        let mut pool = Pool::default();
        [evidence, found].into_iter().for_each(|ranking| pool.add(ranking, 1.0));
        evidence = pool.best(k);
        reading = work.read(&evidence).await?;
    }
    Ok(reading)
}

/// Returns the entities that the question names, and gives documents with these titles their bonus.
async fn named_by_question(
    work: &mut Work<'_>,
    admitted: &Admitted,
    passages: &mut Passages,
) -> Result<BTreeSet<EntityKey>, Error> {
    let question = work.question;
    let named = names_in(work, &question.text, MAX_NAMES.0).await?;
    let known = named.iter().filter(|entity| admitted.knows(entity));
    let entities: Vec<String> = known.map(|entity| entity.name.clone()).collect();
    if !entities.is_empty() {
        let reason = "the question names them".to_owned();
        work.trace(TraceEvent::EntitiesChosen { entities, reason });
    }
    // A document has one title, so it is in the map once.
    let titled: BTreeMap<&DocumentId, &EntityNode> = named
        .iter()
        .flat_map(|entity| entity.titled.iter().map(move |document| (document, entity)))
        .filter(|(document, _)| admitted.has(document))
        .collect();
    let targets = titled.iter().filter_map(|(id, entity)| Target::document(id, entity, passages));
    let mut unread = Vec::new();
    let mut gaining = Vec::new();
    for target in targets {
        match target {
            Target::Passage(index) => gaining.push(index),
            Target::Segment(id) => unread.push(id),
        }
    }
    unread.truncate(MAX_TARGETS);
    let read = segments(work, &unread).await?;
    gaining.extend(read.into_values().map(|segment| passages.find_or_add(segment)));
    for index in gaining {
        passages.all[index].own += NAMED_BONUS;
    }
    Ok(named.into_iter().map(|entity| entity.key).collect())
}

/// Links the best passages to what they name.
async fn link(
    work: &mut Work<'_>,
    admitted: &Admitted,
    named: &BTreeSet<EntityKey>,
    passages: &mut Passages,
) -> Result<(), Error> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for source in passages.sources(MOST_SOURCES) {
        work.check_time("following names")?;
        let text = &passages.all[source].evidence.text;
        let mut entities = names_in(work, text, MAX_NAMES.1).await?;
        entities.retain(|entity| !link::is_named(&entity.key, named));
        candidates.extend(names_of(source, &entities, passages, admitted));
    }
    let segments = segments(work, &wanted(&candidates, MAX_TARGETS)).await?;
    let mut found: BTreeMap<&SegmentId, usize> = BTreeMap::new();
    for Candidate { link, target } in &candidates {
        let index = match target {
            Target::Passage(index) => *index,
            Target::Segment(id) => {
                let Some(segment) = segments.get(id) else { continue };
                if overlap(segment, &passages.all[link.source].evidence) {
                    continue;
                }
                let add = || passages.find_or_add(segment.clone());
                *found.entry(id).or_insert_with(add)
            }
        };
        passages.all[index].link_from(link);
    }
    Ok(())
}

/// Returns the best `k` passages with their scores, and reports the links that led to them.
fn best(work: &Work<'_>, passages: Passages, k: usize) -> Vec<Evidence> {
    let ranking = passages.ranking();
    let kept = &ranking[..k.min(ranking.len())];
    for &index in kept {
        let passage = &passages.all[index];
        let Some(Link { source, name, worth, reason }) = &passage.link else { continue };
        work.trace(TraceEvent::EdgeFollowed {
            head: passages.all[*source].title(),
            relation: "names".to_owned(),
            tail: name.clone(),
            to: passage.title(),
            score: LINK_WEIGHT * worth,
            reason: reason.clone(),
        });
    }
    let scored = |&index: &usize| {
        let passage = &passages.all[index];
        Evidence { score: passage.score(), ..passage.evidence.clone() }
    };
    let evidence: Vec<Evidence> = kept.iter().map(scored).collect();
    work.trace(TraceEvent::Gathered {
        segments: evidence.len(),
        dropped: ranking.len() - evidence.len(),
        bytes: evidence.iter().map(|item| item.text.len() as u64).sum(),
    });
    evidence
}

/// Returns the entities that a text names.
async fn names_in(work: &mut Work<'_>, text: &str, most: usize) -> Result<Vec<EntityNode>, Error> {
    let query =
        GraphQuery { texts: vec![text.to_owned()], most_entities: most, ..GraphQuery::default() };
    Ok(work.subgraph(&query).await?.entities)
}

/// Returns the texts of those segments that exist.
async fn segments(
    work: &mut Work<'_>,
    ids: &[SegmentId],
) -> Result<BTreeMap<SegmentId, Evidence>, Error> {
    Ok(work.segments(ids).await?.into_iter().collect())
}
