//! Navigation without a language model: similarity decides where a prompt would reason.

use std::cmp::Ordering;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Assignment, ChildChoice, Cost, EntityChoice, EntityKind, Error, Evidence, ExtractionTask,
    LeafReading, Named, Navigator, Reasoner, Reflection, Triage, TriageStep,
};
use clew_graph::extract;
use clew_text::{one_line, words};

use super::ExtractiveReasoner;
use super::judge::MAX_WORDS_TOLD;
use super::judged::Judged;
use super::question::{Question, WordSet};

/// Weights of a child's summary and of the passages found below it, if both are known. They are
/// equal: a summary leaves out most of what is below it, and a search does not know what belongs
/// together.
const SUMMARY_SHARE: f32 = 0.5;
const FOUND_SHARE: f32 = 1.0 - SUMMARY_SHARE;
/// Minimum relevance or similarity at which a summary is about the question. Texts about different
/// things have cosines of about 0 to 0.15 in all-MiniLM-L6-v2.
const LEAST_OF_SUMMARY: f32 = 0.2;
/// Minimum similarity at which an entity's name relates to what is looked for. Lower than that of a
/// summary: a name is short, and the link that is missing often resembles the question little.
const LEAST_NAME_COSINE: f32 = 0.05;
/// Maximum number of queries that a question is elaborated into.
const MAX_QUERIES: usize = 3;
/// Quotation marks around titles. Single ones are left out, because they are apostrophes too.
const QUOTATION_MARKS: [(char, char); 4] = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»')];

/// Every step is deterministic, and ties keep the order in which the items are given.
#[async_trait]
impl Navigator for ExtractiveReasoner {
    /// Enters the child with the highest score: half the relevance of its summary by the reader,
    /// half the score of the best passage found below it, or only the relevance if nothing was
    /// searched. Without a reader for the question, the cosine similarity of summary and question
    /// takes the place of the relevance.
    ///
    /// It turns back, if it may, when the search found nothing below any child and no summary is
    /// 0.2 relevant or similar. Without a search it never turns back: a summary leaves out too much
    /// to show that nothing is below it. The working memory changes neither.
    ///
    /// It reads the summaries in one call of its reader, or embeds the question and the summaries
    /// in two calls of its encoder.
    async fn choose_child(&self, choice: &ChildChoice, deadline: Instant) -> Result<Triage, Error> {
        choice.check()?;
        let (likeness, cost) = self.likeness(choice, deadline).await?;
        let of_summaries = &likeness.of_summaries;
        let greatest = of_summaries.iter().copied().fold(-1.0, f32::max);
        let is_searched = !choice.found.is_empty();
        let is_found = choice.found.iter().any(|found| *found > 0.0);
        if choice.may_turn_back && is_searched && !is_found && greatest < LEAST_OF_SUMMARY {
            let reasoning = format!(
                "nothing that was found for the question is below here, and the most {word} \
                 summary is {greatest:.2} {word}",
                word = likeness.word
            );
            return Ok(Triage { reasoning, step: TriageStep::TurnBack, cost });
        }
        let score = |child: usize, like: f32| match choice.found.get(child) {
            Some(found) => SUMMARY_SHARE * like + FOUND_SHARE * found,
            None => like,
        };
        let scores = of_summaries.iter().enumerate().map(|(child, like)| score(child, *like));
        let best = best_first(scores).first().map_or(0, |(child, _)| *child);
        let reasoning = told(choice, best, &likeness);
        Ok(Triage { reasoning, step: TriageStep::Enter(best), cost })
    }

    /// Reads the leaf as [`Reasoner::read`] does, and answers if the confidence suffices.
    ///
    /// Texts read on the way are not used: the answer quotes the leaf, and a summary is not text of
    /// a document that could be cited.
    async fn read_leaf(
        &self,
        question: &str,
        _memory: &[String],
        leaf: &Evidence,
        deadline: Instant,
    ) -> Result<LeafReading, Error> {
        let reading =
            self.read(&Assignment::new(question, std::slice::from_ref(leaf)), deadline).await?;
        let (reasoning, cost) = (reading.rationale.clone(), reading.cost);
        let answer = Some(reading).filter(|reading| reading.confidence >= reading.threshold);
        Ok(LeafReading { reasoning, answer, cost })
    }

    /// Judges that evidence suffices if [`Reasoner::read`] would answer from it. Otherwise names
    /// what is missing:
    ///
    /// - If a step of the question was answered, it is the question that is left: "Where was James
    ///   Cameron born?" for "Where was the director of Titanic born?"
    /// - Otherwise a name that the reader found and no passage is about, and the words of the
    ///   question that no sentence covers in which it found something, nor the title above it.
    /// - Without a reader for the question, the words that no passage and no title contains. There
    ///   may be none, because the words can be there without the answer.
    ///
    /// Names and numbers come first, and there are at most five words.
    async fn judge(
        &self,
        question: &str,
        evidence: &[Evidence],
        deadline: Instant,
    ) -> Result<Reflection, Error> {
        let Judged { reading, missing } =
            self.judged(&Assignment::new(question, evidence), deadline).await?;
        let suffices = reading.confidence >= reading.threshold;
        let missing = match missing {
            _ if suffices => String::new(),
            Some(missing) => missing,
            None => words_missing(question, evidence).join(", "),
        };
        Ok(Reflection { reasoning: reading.rationale, suffices, missing, cost: reading.cost })
    }

    /// Returns titles in quotation marks, then the names and times that [`clew_graph::extract`]
    /// finds, then other words with a digit. If none of them is a title or a name, it also returns
    /// the topics of the question, as `extract` finds them. A text that is part of an earlier one
    /// is left out.
    ///
    /// It has no cost.
    async fn name_entities(&self, question: &str, _deadline: Instant) -> Result<Named, Error> {
        Ok(Named { texts: entities_of(question), cost: Cost::default() })
    }

    /// Returns the candidates that the reason names and the question does not, in the order of the
    /// reason: what is missing may have been found by name (see [`Navigator::judge`]). Then come
    /// those whose names are most similar to the question and the reason together, without those
    /// that are less than 0.05 similar. The entities that are already known make no difference.
    ///
    /// It embeds the question with the reason, and the names, in two calls of its encoder.
    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        deadline: Instant,
    ) -> Result<(Vec<usize>, Cost), Error> {
        choice.check()?;
        let wanted = format!("{} {}", choice.question, choice.reason);
        let candidates = choice.candidates.clone();
        let (cosines, cost) = self.similarities(wanted.trim(), candidates, deadline).await?;
        let similar = best_first(cosines)
            .into_iter()
            .filter(|(_, cosine)| *cosine >= LEAST_NAME_COSINE)
            .map(|(candidate, _)| candidate);
        let mut chosen = named_by_reason(choice);
        for candidate in similar {
            if !chosen.contains(&candidate) {
                chosen.push(candidate);
            }
        }
        chosen.truncate(choice.most);
        Ok((chosen, cost))
    }

    /// Returns the question followed by a relation, for each of the three relations most similar to
    /// it.
    ///
    /// It embeds the question and the relations, in two calls of its encoder.
    async fn elaborate(
        &self,
        question: &str,
        relations: &[String],
        deadline: Instant,
    ) -> Result<Named, Error> {
        if relations.is_empty() {
            return Ok(Named { texts: vec![question.to_owned()], cost: Cost::default() });
        }
        let (cosines, cost) = self.similarities(question, relations.to_vec(), deadline).await?;
        let mut texts: Vec<String> = Vec::new();
        for (relation, _) in best_first(cosines) {
            let text = format!("{question} {}", relations[relation]);
            if texts.len() < MAX_QUERIES && !texts.contains(&text) {
                texts.push(text);
            }
        }
        Ok(Named { texts, cost })
    }

    /// Joins the descriptions, those most similar to the question first, without rewording them.
    async fn fuse(
        &self,
        question: &str,
        _subject: &str,
        descriptions: &[String],
        deadline: Instant,
    ) -> Result<(String, Cost), Error> {
        if let [] | [_] = descriptions {
            return Ok((descriptions.concat(), Cost::default()));
        }
        let (cosines, cost) = self.similarities(question, descriptions.to_vec(), deadline).await?;
        let mut said: Vec<&str> = Vec::new();
        for (description, _) in best_first(cosines) {
            let description = descriptions[description].as_str();
            if !said.contains(&description) {
                said.push(description);
            }
        }
        Ok((said.join("; "), cost))
    }
}

/// Returns the scores with their indices, best first; ties keep their order.
fn best_first(scores: impl IntoIterator<Item = f32>) -> Vec<(usize, f32)> {
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

/// How much the summaries of a choice are like its question.
struct Likeness {
    of_summaries: Vec<f32>,
    /// Word for what was measured.
    word: &'static str,
}

impl ExtractiveReasoner {
    /// Measures the summaries by their relevance, or without a reader by their similarity.
    async fn likeness(
        &self,
        choice: &ChildChoice,
        deadline: Instant,
    ) -> Result<(Likeness, Cost), Error> {
        let ChildChoice { question, summaries, .. } = choice;
        if let Some((of_summaries, cost)) = self.relevance(question, summaries, deadline).await? {
            return Ok((Likeness { of_summaries, word: "relevant" }, cost));
        }
        let (of_summaries, cost) = self.similarities(question, summaries.clone(), deadline).await?;
        Ok((Likeness { of_summaries, word: "similar" }, cost))
    }
}

/// Explains to a person why that child is entered.
fn told(choice: &ChildChoice, child: usize, likeness: &Likeness) -> String {
    let like = likeness.of_summaries.get(child).copied().unwrap_or_default();
    let summary = format!("its summary is {like:.2} {} to the question", likeness.word);
    let Some(found) = choice.found.get(child) else { return summary };
    let is_better = |other: &f32| other.total_cmp(found) == Ordering::Greater;
    let below = match *found > 0.0 {
        false => "nothing that was found is in its text".to_owned(),
        true if choice.found.iter().any(is_better) => {
            format!("its text holds a passage that was found for the question ({found:.2})")
        }
        true => format!("its text holds the best passage for the question ({found:.2})"),
    };
    format!("{below}, {summary}")
}

/// Returns the candidates that the reason names and the question does not, in the order of the
/// reason.
fn named_by_reason(choice: &EntityChoice) -> Vec<usize> {
    let place = |(candidate, name): (usize, &String)| {
        let is_new = words(name).next().is_some() && !is_part(name, &choice.question);
        let reason = choice.reason.to_lowercase();
        let at = reason.find(&name.to_lowercase())?;
        (is_new && is_part(name, &choice.reason)).then_some((at, candidate))
    };
    let mut named: Vec<(usize, usize)> =
        choice.candidates.iter().enumerate().filter_map(place).collect();
    named.sort_unstable();
    named.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns words of the question that no passage contains, including passages that were not read.
fn words_missing(question: &str, evidence: &[Evidence]) -> Vec<String> {
    let asked = Question::new(question);
    let held = evidence.iter().fold(WordSet::default(), |held, passage| {
        held | asked.words_in(&passage.title) | asked.words_in(&passage.text)
    });
    asked.written_without(held, MAX_WORDS_TOLD)
}

fn entities_of(question: &str) -> Vec<String> {
    let found = |topics: &str| {
        let task = ExtractionTask {
            text: question.to_owned(),
            question: topics.to_owned(),
            ..ExtractionTask::default()
        };
        extract(&task).entities
    };
    let named = found("");
    let mut texts = quoted(question);
    let has_name = !texts.is_empty() || named.iter().any(|entity| entity.kind != EntityKind::Time);
    let topics = if has_name { Vec::new() } else { found(question) };
    let asked = Question::new(question);
    let written = asked.words().iter().map(|word| word.written.clone());
    let numbers = written.filter(|word| word.chars().any(char::is_numeric));
    let entities = named.into_iter().chain(topics).map(|entity| entity.name);
    for text in entities.chain(numbers) {
        if !texts.iter().any(|taken| is_part(&text, taken)) {
            texts.push(text);
        }
    }
    texts
}

/// Returns the texts between quotation marks, in order, each once.
fn quoted(text: &str) -> Vec<String> {
    let mut quoted: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((open, close)) = rest.char_indices().find_map(|(at, c)| {
        let (_, close) = QUOTATION_MARKS.iter().find(|(open, _)| *open == c)?;
        Some((at + c.len_utf8(), *close))
    }) {
        let Some(length) = rest[open..].find(close) else { break };
        let title = one_line(&rest[open..open + length]);
        if words(&title).next().is_some() && !quoted.contains(&title) {
            quoted.push(title);
        }
        rest = &rest[open + length + close.len_utf8()..];
    }
    quoted
}

/// Returns whether the words of `text` occur consecutively in `whole`, ignoring case.
fn is_part(text: &str, whole: &str) -> bool {
    let in_words = |text: &str| -> Vec<String> {
        words(text).map(|span| text[span.start..span.end].to_lowercase()).collect()
    };
    let (text, whole) = (in_words(text), in_words(whole));
    text.is_empty() || whole.windows(text.len()).any(|run| run == text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use clew_core::{ErrorKind, OneEncoder, TextKind};
    use proptest::prelude::*;

    use super::super::fixtures::{BagOfWords, passage};
    use super::*;

    const GIFT: &str = "Ariadne gave Theseus a ball of thread. He tied it to the gate.";

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn navigator() -> ExtractiveReasoner {
        ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))))
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn children(summaries: &[&str], found: &[f32]) -> ChildChoice {
        ChildChoice {
            question: "Who had red thread?".to_owned(),
            summaries: owned(summaries),
            found: found.to_vec(),
            may_turn_back: true,
            ..ChildChoice::default()
        }
    }

    async fn triage(choice: &ChildChoice) -> Triage {
        let triage = navigator().choose_child(choice, soon()).await.unwrap();
        assert!(triage.cost.embedded_tokens > 0 && triage.cost.model_calls == 0);
        triage
    }

    #[tokio::test]
    async fn without_a_search_the_child_most_like_the_question_is_entered() {
        let choice = children(&["A king of Crete.", "Red thread.", "Red thread."], &[]);
        let triage = triage(&choice).await;
        // Ties go to the first.
        assert_eq!(triage.step, TriageStep::Enter(1));
        // Two of the question's four words, and no others: 2 / (√4 · √2).
        assert_eq!(triage.reasoning, "its summary is 0.71 similar to the question");
    }

    #[tokio::test]
    async fn what_was_found_counts_as_much_as_the_summary() {
        let summaries = ["A king of Crete.", "Red thread.", "A maze."];
        let entered = triage(&children(&summaries, &[0.93, 0.0, 0.0])).await;
        assert_eq!(entered.step, TriageStep::Enter(0));
        let expected = "its text holds the best passage for the question (0.93), its summary is \
                        0.00 similar to the question";
        assert_eq!(entered.reasoning, expected);
        let entered = triage(&children(&summaries, &[0.6, 0.0, 0.0])).await;
        assert_eq!(entered.step, TriageStep::Enter(1));
        assert!(entered.reasoning.starts_with("nothing that was found is in its text, its"));
        let entered = triage(&children(&summaries, &[0.6, 0.1, 0.0])).await;
        assert_eq!(entered.step, TriageStep::Enter(1));
        assert!(entered.reasoning.starts_with("its text holds a passage that was found for"));
    }

    #[tokio::test]
    async fn it_turns_back_only_where_nothing_was_found_and_nothing_is_similar() {
        let unlike = ["A king of Crete.", "A maze."];
        let turned = triage(&children(&unlike, &[0.0, 0.0])).await;
        assert_eq!(turned.step, TriageStep::TurnBack);
        assert!(turned.reasoning.ends_with("the most similar summary is 0.00 similar"));
        let choices = [
            ChildChoice { may_turn_back: false, ..children(&unlike, &[0.0, 0.0]) },
            children(&unlike, &[]),
            children(&unlike, &[0.01, 0.0]),
            children(&["Red thread.", "A maze."], &[0.0, 0.0]),
        ];
        for choice in choices {
            assert_eq!(triage(&choice).await.step, TriageStep::Enter(0), "{choice:?}");
        }
    }

    #[tokio::test]
    async fn working_memory_changes_no_choice() {
        let choice = children(&["A king of Crete.", "Red thread."], &[0.4, 0.1]);
        let memory = owned(&["A king of Crete had no thread."]);
        let remembering = ChildChoice { memory, ..choice.clone() };
        assert_eq!(triage(&choice).await, triage(&remembering).await);
    }

    #[tokio::test]
    async fn choices_between_nothing_are_refused() {
        let error = navigator().choose_child(&children(&[], &[]), soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let choice = EntityChoice::default();
        let error = navigator().choose_entities(&choice, soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn a_leaf_answers_as_evidence_does_whatever_was_read_before() {
        let leaf = passage("gift", 7, GIFT, 0.1);
        let question = "Who gave Theseus the ball of thread?";
        let memory = owned(&["Minos ruled Crete."]);
        let read = navigator().read_leaf(question, &memory, &leaf, soon()).await.unwrap();
        let expected = navigator()
            .read(&Assignment::new(question, std::slice::from_ref(&leaf)), soon())
            .await
            .unwrap();
        assert_eq!(read.reasoning, expected.rationale);
        assert_eq!(read.cost, expected.cost);
        assert_eq!(read.answer, Some(expected));
        let read = navigator().read_leaf("Where is Zurich?", &memory, &leaf, soon()).await.unwrap();
        assert_eq!(read.answer, None);
        assert!(read.reasoning.ends_with("missing: \"Zurich\"") && read.cost.embedded_tokens > 0);
    }

    #[tokio::test]
    async fn evidence_suffices_if_it_would_be_answered_from() {
        let evidence = [passage("gift", 7, GIFT, 0.9)];
        let question = "Who gave Theseus the ball of thread?";
        let judged = navigator().judge(question, &evidence, soon()).await.unwrap();
        assert!(judged.suffices && judged.missing.is_empty() && judged.cost.embedded_tokens > 0);
        let question = "When did the ship of Perseus sink near Naxos?";
        let mut titled = evidence[0].clone();
        titled.title = "Naxos".to_owned();
        let judged = navigator().judge(question, &[titled], soon()).await.unwrap();
        assert!(!judged.suffices && judged.reasoning.starts_with("best sentence cosine"));
        // Names come first, and a word in a title is not missing.
        assert_eq!(judged.missing, "Perseus, ship, sink, near");
        let judged = navigator().judge("Who?", &[], soon()).await.unwrap();
        let expected = (false, "", "nothing was found to read");
        let Reflection { reasoning, suffices, missing, cost } = judged;
        assert_eq!((suffices, missing.as_str(), reasoning.as_str()), expected);
        assert_eq!(cost, Cost::default());
    }

    #[tokio::test]
    async fn entities_are_titles_names_and_numbers_or_else_topics() {
        for (question, expected) in [
            ("Who gave Theseus the thread of Ariadne?", vec!["Theseus", "Ariadne"]),
            (
                "When did Ada Lovelace meet Charles Babbage?",
                vec!["Ada Lovelace", "Charles Babbage"],
            ),
            ("Who wrote “The Name of the Rose” in Italy?", vec!["The Name of the Rose", "Italy"]),
            ("Who sang \"so what\" and \"so what\"?", vec!["so what"]),
            ("Which pilots of KLM flew flight 4805?", vec!["KLM", "4805"]),
            // A verb that is not a common one is a topic as well.
            ("What happened to the old bridge in 1834?", vec!["1834", "happened", "old bridge"]),
            ("what was the ball of thread for?", vec!["ball", "thread"]),
            ("An open \" mark of Crete", vec!["Crete"]),
            ("Who was she?", vec![]),
            (" ", vec![]),
        ] {
            let named = navigator().name_entities(question, soon()).await.unwrap();
            assert_eq!(named.texts, expected, "{question}");
            assert_eq!(named.cost, Cost::default());
        }
    }

    #[tokio::test]
    async fn entities_are_chosen_by_what_is_asked_and_what_is_missing() {
        let choice = EntityChoice {
            question: "Who helped the prince?".to_owned(),
            reason: "nothing tells of the thread".to_owned(),
            known: owned(&["Theseus"]),
            candidates: owned(&["Minos", "ball of thread", "prince", "red thread", "prince"]),
            most: 3,
        };
        let (chosen, cost) = navigator().choose_entities(&choice, soon()).await.unwrap();
        // Two words of three, then the only word, by order; not one word of two, since only three
        // are wanted.
        assert_eq!(chosen, [1, 2, 4]);
        assert!(cost.embedded_tokens > 0);
        let all = EntityChoice { most: 9, ..choice.clone() };
        let (chosen, _) = navigator().choose_entities(&all, soon()).await.unwrap();
        // "Minos" is too dissimilar.
        assert_eq!(chosen, [1, 2, 4, 3]);
        let silent = EntityChoice { reason: String::new(), ..choice };
        let (chosen, _) = navigator().choose_entities(&silent, soon()).await.unwrap();
        assert_eq!(chosen, [2, 4]);
    }

    #[tokio::test]
    async fn a_question_is_elaborated_with_the_relations_most_like_it() {
        let relations = owned(&[
            "Minos ruled Crete",
            "Theseus tied the thread",
            "Ariadne had red thread",
            "Ariadne had red thread",
            "Daedalus had wings",
        ]);
        let question = "Who had red thread?";
        let named = navigator().elaborate(question, &relations, soon()).await.unwrap();
        let expected =
            [2, 4, 1].map(|relation: usize| format!("{question} {}", relations[relation]));
        assert_eq!(named.texts, expected);
        assert!(named.cost.embedded_tokens > 0);
        let named = navigator().elaborate(question, &[], soon()).await.unwrap();
        assert_eq!((named.texts, named.cost), (vec![question.to_owned()], Cost::default()));
    }

    #[tokio::test]
    async fn descriptions_are_fused_with_those_most_like_the_question_first() {
        let told = owned(&["Minos ruled Crete", "Ariadne had red thread", "Minos ruled Crete"]);
        let fused = navigator().fuse("Who had red thread?", "Crete", &told, soon()).await.unwrap();
        assert_eq!(fused.0, "Ariadne had red thread; Minos ruled Crete");
        assert!(fused.1.embedded_tokens > 0);
        let fused = navigator().fuse("Who?", "Crete", &told[..1], soon()).await.unwrap();
        assert_eq!(fused, (told[0].clone(), Cost::default()));
    }

    #[tokio::test]
    async fn each_choice_takes_two_calls_and_late_ones_fail() {
        let encoder = Arc::new(BagOfWords::new());
        let navigator = ExtractiveReasoner::new(Arc::new(OneEncoder(encoder.clone())));
        let choice = children(&["Red thread.", "A maze."], &[]);
        navigator.choose_child(&choice, soon()).await.unwrap();
        assert_eq!(*encoder.calls.lock().unwrap(), [(TextKind::Query, 1), (TextKind::Passage, 2)]);
        let error = navigator.choose_child(&choice, Instant::now()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }
    proptest! {
        #[test]
        fn what_a_question_names_stands_in_it_each_once(
            question in "[aA1 \"“”„«».?é-]{0,30}|\\PC{0,60}",
        ) {
            let named = entities_of(&question);
            for (index, text) in named.iter().enumerate() {
                prop_assert!(!text.trim().is_empty() && !named[..index].contains(text));
                prop_assert!(one_line(&question).contains(text), "{text}");
            }
        }
    }
}
