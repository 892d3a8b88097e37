//! Reads the points of a working memory.

use clew_core::{
    ChunkId, CorpusName, Cost, DocumentId, Error, Evidence, MemoryPoint, Span, Version,
};

use super::calibrated::{LED_ANSWERED, NEAR, SURE};
use super::session::Session;
use crate::extractive::question::Question;

/// What the points of a working memory tell of a question.
pub(in crate::extractive) struct PointsRead {
    /// Whether they answer it.
    pub(in crate::extractive) is_answered: bool,
    /// Index of the point that comes nearest to an answer, if one does.
    pub(in crate::extractive) nearest: Option<usize>,
    /// What to look for next; may be empty.
    pub(in crate::extractive) missing: Vec<String>,
    pub(in crate::extractive) cost: Cost,
}

impl Session<'_, '_> {
    /// Reads the points that are shown, as passages whose documents are named by their indices.
    pub(super) async fn read_points(&mut self) -> Result<PointsRead, Error> {
        let mut found = self.joined_answers(SURE).await?;
        let steps = self.steps().await?;
        let (mut next, mut is_answered) = (None, false);
        if let Some(steps) = &steps {
            found.retain(|candidate| !steps.taken.iter().any(|taken| taken.says_same(candidate)));
            is_answered = steps.found.iter().any(|it| it.probability >= LED_ANSWERED);
        }
        is_answered |= found.iter().any(|it| it.probability >= it.least());
        if let Some(steps) = steps {
            found.extend(steps.found);
            found.sort_by(|a, b| b.probability.total_cmp(&a.probability));
            next = steps.taken.last().map(|last| (last.places[0].passage, steps.asked));
        }
        let best = found.first().filter(|best| best.probability >= NEAR);
        let nearest = match &next {
            Some((passage, _)) => Some(*passage),
            None => best.map(|best| best.places[0].passage),
        };
        let nearest = nearest.and_then(|passage| self.index_of(passage));
        let missing = match next {
            _ if is_answered => Vec::new(),
            Some((_, asked)) => vec![asked],
            None => self.missing(&found),
        };
        Ok(PointsRead { is_answered, nearest, missing, cost: self.cost() })
    }

    /// Returns the index of the point that a passage shows.
    fn index_of(&self, passage: usize) -> Option<usize> {
        self.shown[passage].evidence.document_id.as_str().parse().ok()
    }
}

/// Returns the points as passages, those with more of the question's words first. The index of a
/// point is the id of its document.
pub(super) fn as_evidence(question: &str, points: &[MemoryPoint]) -> Vec<Evidence> {
    let corpus: Option<CorpusName> = "points".parse().ok();
    let asked = Question::new(question);
    let evidence = |(index, point): (usize, &MemoryPoint)| {
        let document_id: DocumentId = index.to_string().parse().ok()?;
        let title = point.entities.join(", ");
        let held = asked.words_in(&point.text) | asked.words_in(&title);
        let version = Version(1);
        Some(Evidence {
            chunk_id: ChunkId::derive(corpus.as_ref()?, &document_id, version, 0),
            document_id,
            version,
            title,
            span: Span::new(0, point.text.len()),
            text: point.text.clone(),
            event_time: None,
            score: held.len() as f32,
            dense_score: None,
            sparse_score: None,
        })
    };
    points.iter().enumerate().filter_map(evidence).collect()
}
