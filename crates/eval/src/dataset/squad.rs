//! SQuAD (Rajpurkar et al., EMNLP 2016 and ACL 2018): questions about articles of Wikipedia, of
//! which SQuAD 2.0 also asks some that have no answer.
//!
//! Files are those of [`read_questions`]. The passages with the same title, an article, are a
//! haystack; an article has its passages in the order of the file.
//!
//! A question without an answer has none in its own passage. Here the whole article is searched,
//! which may answer it elsewhere; that is rare, and counts as wrong.

use std::collections::HashMap;

use clew_core::DocumentId;

use super::files::name_of;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, Unit, UnitKind};
use crate::Error;
use crate::dataset::Scoring;
use crate::reading::{ReadingQuestion, read_questions};

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "squad",
    units: &[UnitKind::Passage],
    splits: &[],
    has_evidence: true,
    open,
};

const FILES: [&str; 4] = ["dev-v2.0.json", "dev-v1.1.json", "squad2_dev.jsonl", "squad.jsonl"];

const ANSWERABLE: &str = "answerable";
const ABSTENTION: &str = "abstention";

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let file = source.file(FORMAT.name, &FILES)?;
    let name = name_of(&file, FORMAT.name);
    let mut articles: Vec<Article> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for question in read_questions(&file)? {
        let place = *places.entry(question.title.clone()).or_insert(articles.len());
        if place == articles.len() {
            articles.push(Article::default());
        }
        articles[place].add(question);
    }
    Ok(Box::new(articles.into_iter().map(move |article| Ok(article.into_haystack(&name)))))
}

/// Passages of one title, and their questions.
#[derive(Default)]
struct Article {
    title: String,
    passages: Vec<String>,
    /// Place of each passage.
    places: HashMap<String, usize>,
    questions: Vec<(usize, ReadingQuestion)>,
}

impl Article {
    fn add(&mut self, question: ReadingQuestion) {
        self.title.clone_from(&question.title);
        let place = *self.places.entry(question.context.clone()).or_insert_with(|| {
            self.passages.push(question.context.clone());
            self.passages.len() - 1
        });
        self.questions.push((place, question));
    }

    /// Returns the haystack, which has the name of the article or, without one, that of the file.
    fn into_haystack(self, file: &str) -> Haystack {
        // Titles are those of addresses, in which a blank is an underscore.
        let title = self.title.replace('_', " ");
        let units = self.passages.into_iter().enumerate().map(|(place, text)| Unit {
            id: passage_id(place),
            title: title.clone(),
            text,
            event_time: None,
            said: Vec::new(),
        });
        let questions = self.questions.into_iter().map(|(place, question)| {
            let is_answerable = question.is_answerable();
            EvalQuestion {
                kind: if is_answerable { ANSWERABLE } else { ABSTENTION }.to_owned(),
                groups: vec!["all".to_owned()],
                gold: if is_answerable { vec![passage_id(place)] } else { Vec::new() },
                asked_at: None,
                is_abstention: !is_answerable,
                references: question.answers,
                scoring: Scoring::Squad,
                id: question.id,
                text: question.question,
            }
        });
        let name = if title.is_empty() { file.to_owned() } else { title.clone() };
        Haystack::new(name, units.collect(), questions.collect())
    }
}

fn passage_id(place: usize) -> DocumentId {
    place.to_string().parse().expect("digits are a valid document id")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, gold, ids, texts};

    fn line(id: &str, title: &str, context: &str, answers: &str) -> String {
        format!(
            "{{\"id\":\"{id}\",\"title\":\"{title}\",\"context\":\"{context}\",\
             \"question\":\"Who?\",\"answers\":{answers}}}\n"
        )
    }

    #[test]
    fn articles_are_haystacks_and_questions_without_answers_are_for_abstention() {
        let lines = [
            line("a", "Old_port", "Bo saw Al.", r#"[{"text":"Bo"},{"text":"Al"}]"#),
            line("b", "Rome", "Cy left.", "[]"),
            line("c", "Old_port", "Di stayed.", r#"[{"text":"Di"}]"#),
            line("d", "Old_port", "Bo saw Al.", "[]"),
        ];
        let files = Files::of(&[("squad2_dev.jsonl", &lines.concat())]);
        let haystacks = files.read("squad", None, None).unwrap();
        let [port, rome] = &haystacks[..] else { panic!("{haystacks:?}") };
        assert_eq!((&*port.name, &*rome.name), ("Old port", "Rome"));
        assert_eq!((ids(port), texts(port)), (vec!["0", "1"], vec!["Bo saw Al.", "Di stayed."]));
        assert_eq!(port.units[0].title, "Old port");
        assert_eq!((gold(port, "a"), gold(port, "c")), (vec!["0"], vec!["1"]));
        assert_eq!(port.questions[0].references, ["Bo", "Al"]);
        let [never_said] = &port.without_evidence[..] else { panic!() };
        assert_eq!((&*never_said.id, never_said.is_abstention), ("d", true));
        assert!(port.answerable().count() == 3 && rome.answerable().count() == 1);
    }

    #[test]
    fn passages_without_a_title_are_one_haystack() {
        let lines = [line("a", "", "Bo.", "[]"), line("b", "", "Cy.", "[]")].concat();
        let files = Files::of(&[("some.jsonl.gz", &lines)]);
        let haystacks = files.read_at(&files.path("some.jsonl.gz"), "squad", None, None).unwrap();
        assert_eq!((haystacks.len(), &*haystacks[0].name), (1, "some"));
        assert_eq!(ids(&haystacks[0]), ["0", "1"]);
    }
}
