//! SQuALITY (Wang et al., EMNLP 2022): summaries of short stories, each for a question about the
//! story.
//!
//! File: `squality_<split>.jsonl`, or the authors' `<split>.jsonl`, with records `{metadata:
//! {passage_id}, document, questions: [{question_text, question_number, responses:
//! [{response_text}]}]}`. The responses, mostly four, are the references. The first question always
//! asks for the plot.

use serde::Deserialize;

use super::files::first_of;
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, UnitKind, long};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "squality",
    units: &[UnitKind::Document],
    splits: &["train", "dev", "test"],
    has_evidence: false,
    open,
};

const PLOT: &str = "plot";
const ASPECT: &str = "aspect";

#[derive(Deserialize)]
struct StoryRecord {
    metadata: Metadata,
    document: String,
    questions: Vec<QuestionRecord>,
}

#[derive(Deserialize)]
struct Metadata {
    passage_id: String,
}

#[derive(Deserialize)]
struct QuestionRecord {
    question_text: String,
    question_number: u32,
    responses: Vec<Response>,
}

#[derive(Deserialize)]
struct Response {
    response_text: String,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let file = if source.path.is_dir() {
        let splits = FORMAT.splits.iter().filter(|name| source.split.is_none_or(|s| s == **name));
        let names: Vec<_> = splits
            .flat_map(|split| [format!("squality_{split}.jsonl"), format!("{split}.jsonl")])
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        first_of(source.path, &names).ok_or_else(|| {
            let expected = format!("one of `{}`", names.join("`, `"));
            source.unknown_layout(FORMAT.name, expected)
        })?
    } else {
        source.path.to_owned()
    };
    let records = Records::<StoryRecord>::open(&file)?;
    Ok(Box::new(records.map(move |record| {
        let record = record?;
        haystack(record.value).map_err(|problem| Error::malformed(&file, record.line, problem))
    })))
}

fn haystack(record: StoryRecord) -> Result<Haystack, String> {
    let story = record.metadata.passage_id;
    let question = |record: QuestionRecord| {
        let number = record.question_number;
        let kind = if number == 1 { PLOT } else { ASPECT };
        let references = record.responses.into_iter().map(|response| response.response_text);
        EvalQuestion {
            text: record.question_text,
            references: references.collect(),
            ..long::question(format!("{story}_q{number}"), kind, Scoring::RougeL)
        }
    };
    let questions = record.questions.into_iter().map(question).collect();
    long::haystack(story.clone(), String::new(), record.document, questions)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Files;
    use super::*;

    const STORY: &str = r#"{"metadata":{"passage_id":"77"},"document":"A cat moved in.","questions":[
        {"question_text":"What is the plot?","question_number":1,"responses":[
            {"response_text":"A cat moves in."},{"response_text":"In moves a cat."}]},
        {"question_text":"Who is the cat?","question_number":2,"responses":[{"response_text":"A cat."}]}]}"#;

    #[test]
    fn stories_have_questions_with_several_references() {
        let files = Files::of(&[("squality_train.jsonl", STORY), ("dev.jsonl", STORY)]);
        for (path, split) in [
            (files.folder(), None),
            (files.folder(), Some("dev")),
            (&files.path("dev.jsonl"), None),
        ] {
            let haystack = files.read_at(path, "squality", None, split).unwrap().remove(0);
            let asked: Vec<_> = haystack
                .answerable()
                .map(|question| (&*question.id, &*question.kind, question.references.len()))
                .collect();
            assert_eq!(asked, [("77_q1", PLOT, 2), ("77_q2", ASPECT, 1)]);
        }
        let error = files.read("squality", None, Some("test")).unwrap_err().to_string();
        assert!(error.contains("`squality_test.jsonl`, `test.jsonl`"), "{error}");
    }
}
