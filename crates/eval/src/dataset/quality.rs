//! QuALITY (Pang et al., NAACL 2022) in the version of L-Eval: multiple choice about texts of about
//! 6,000 tokens.
//!
//! File: `quality_leval.jsonl` or L-Eval's own `quality.jsonl`. A question contains its options,
//! each on a line that begins with its letter as `(A)`; its answer repeats the right one. Chance is
//! 1 in the number of options, here 25 %.

use super::leval::{self, Task};
use super::{DatasetFormat, Haystacks, Source, UnitKind};
use crate::Error;
use crate::answers::ChoiceOption;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "quality",
    units: &[UnitKind::Document],
    splits: &[],
    has_evidence: false,
    open,
};

const FILES: [&str; 2] = ["quality_leval.jsonl", "quality.jsonl"];

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    leval::open(source, FORMAT.name, &FILES, task)
}

fn task(question: &str, answer: &str) -> Result<Task, String> {
    let (stem, options) = parts(question);
    if options.len() < 2 {
        return Err(format!("expected options on lines such as `(A) ...`, got {}", options.len()));
    }
    let right = options.iter().find(|option| marked(answer, option.letter).is_some());
    let Some(right) = right else {
        return Err(format!("expected an answer such as `(A) ...`, got `{answer}`"));
    };
    Ok(Task {
        text: question.to_owned(),
        kind: "multiple-choice",
        references: vec![right.text.clone()],
        scoring: Scoring::Choice { stem, right: right.letter, options: options.clone() },
    })
}

/// Returns the question without its options, and the options. A line that begins no option
/// continues the last one.
fn parts(question: &str) -> (String, Vec<ChoiceOption>) {
    let (mut stem, mut options) = (String::new(), Vec::<ChoiceOption>::new());
    let mut letters = 'A'..='Z';
    let mut next = letters.next();
    for line in question.lines() {
        if let Some((letter, text)) = next.and_then(|letter| Some((letter, marked(line, letter)?)))
        {
            options.push(ChoiceOption { letter, text: text.trim().to_owned() });
            next = letters.next();
            continue;
        }
        let text = options.last_mut().map_or(&mut stem, |option| &mut option.text);
        text.push('\n');
        text.push_str(line);
        text.truncate(text.trim_end().len());
    }
    (stem.trim().to_owned(), options)
}

/// Returns the text after `(letter)` at the beginning of `text`.
fn marked(text: &str, letter: char) -> Option<&str> {
    text.trim_start().strip_prefix('(')?.strip_prefix(letter)?.strip_prefix(')')
}

#[cfg(test)]
mod tests {
    use super::super::Haystack;
    use super::super::testing::{Files, ids};
    use super::*;

    const DOCUMENT: &str = r#""document":"The ferry sank.\nNobody cried.","#;
    const QUESTION: &str =
        r#"Who cried?\n\n (A) The (B) man \n (B) Nobody\nat all\n (C) Everybody"#;

    fn file(answer: &str) -> Files {
        let line = format!(
            r#"{{"doc_id":"ferry",{DOCUMENT}"questions":["{QUESTION}"],"answers":["{answer}"]}}"#
        );
        Files::of(&[("quality_leval.jsonl", &line)])
    }

    #[test]
    fn a_document_is_a_haystack_with_questions_of_choice() {
        let files = file("(B) Nobody at all");
        for path in [files.folder(), &files.path("quality_leval.jsonl")] {
            let haystacks = files.read_at(path, "quality", None, None).unwrap();
            let [haystack] = &haystacks[..] else { panic!("{haystacks:?}") };
            assert_eq!((&*haystack.name, &ids(haystack)[..]), ("ferry", &["ferry"][..]));
            let [question] = &haystack.answerable().collect::<Vec<_>>()[..] else { panic!() };
            assert_eq!((&*question.id, &*question.kind), ("ferry_q0", "multiple-choice"));
            assert!(question.text.contains("(C) Everybody"));
            let options = [('A', "The (B) man"), ('B', "Nobody\nat all"), ('C', "Everybody")]
                .map(|(letter, text)| ChoiceOption { letter, text: text.to_owned() })
                .to_vec();
            let stem = "Who cried?".to_owned();
            assert_eq!(question.scoring, Scoring::Choice { stem, options, right: 'B' });
        }
    }

    #[test]
    fn the_authors_records_are_read_alike() {
        let line = format!(
            r#"{{"input":"The ferry sank.","instructions":["{QUESTION}"],"outputs":["(C)"],"source":"x"}}"#
        );
        let files = Files::of(&[("quality.jsonl", &format!("{line}\n{line}"))]);
        let haystacks = files.read("quality", None, None).unwrap();
        let ids: Vec<_> = haystacks.iter().flat_map(Haystack::answerable).map(|q| &*q.id).collect();
        assert_eq!(ids, ["quality-0_q0", "quality-1_q0"]);
    }

    #[test]
    fn retrieval_is_refused_with_the_formats_that_can() {
        let format = DatasetFormat::named("quality").unwrap();
        let error = format.check_retrieval().unwrap_err().to_string();
        assert!(error.contains("quality name no evidence"), "{error}");
        assert!(error.contains("multihop, locomo, longmemeval, lihua, beam or squad"), "{error}");
        assert!(DatasetFormat::named("beam").unwrap().check_retrieval().is_ok());
        let haystack = file("(A)").read("quality", None, None).unwrap().remove(0);
        assert!(haystack.questions.is_empty());
    }

    #[test]
    fn records_without_options_answers_or_text_are_refused() {
        let line = format!(
            r#"{{"doc_id":"ferry",{DOCUMENT}"questions":["{QUESTION}"],"answers":["(B)"]}}"#
        );
        let cases = [
            (line.replace("(B)\"", "Nobody\""), "expected an answer such as"),
            (line.replace("(B) Nobody", "(X) Nobody").replace("(A)", "A"), "expected options"),
            (line.replace(r#"["(B)"]"#, "[]"), "an answer per question, got 0 for 1"),
            (line.replace(r"The ferry sank.\nNobody cried.", " "), "expected a document"),
            ("{}".to_owned(), "document"),
        ];
        for (line, problem) in cases {
            let files = Files::of(&[("quality_leval.jsonl", &line)]);
            let error = files.read("quality", None, None).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("line 1"), "{error}");
        }
    }
}
