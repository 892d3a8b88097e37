//! Survey of a data set, before any question is asked.

use clew_core::Document;

use super::{DatasetFormat, EvalQuestion, Haystacks, UnitKind};
use crate::Error;

/// Numbers and fingerprint of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Number of haystacks.
    pub haystacks: usize,
    /// Number of units, over all haystacks.
    pub units: usize,
    /// Number of questions whose right answer is known, over all haystacks.
    pub answerable: usize,
    /// Hash of the units and of the answerable questions in their order, 32 hexadecimal digits. It
    /// is equal if the same questions are asked of the same units.
    pub fingerprint: String,
}

impl DatasetFormat {
    /// Reads the whole data set once, as [`DatasetFormat::open`] does, and keeps none of it.
    ///
    /// # Errors
    /// Returns the errors of [`DatasetFormat::open`], and [`Error::NothingToScore`] if no right
    /// answer is known.
    pub fn survey(
        &self,
        path: &std::path::Path,
        unit: Option<UnitKind>,
        split: Option<&str>,
    ) -> Result<Survey, Error> {
        let survey = survey(self.open(path, unit, split)?)?;
        if survey.answerable == 0 { Err(Error::NothingToScore) } else { Ok(survey) }
    }
}

fn survey(contents: Haystacks) -> Result<Survey, Error> {
    let mut fingerprint = Fingerprint(blake3::Hasher::new());
    let (mut haystacks, mut units, mut answerable) = (0, 0, 0);
    for haystack in contents {
        let haystack = haystack?;
        haystacks += 1;
        fingerprint.text(&haystack.name);
        fingerprint.count(haystack.units.len());
        units += haystack.units.len();
        for unit in haystack.units.iter().cloned() {
            fingerprint.text(unit.id.as_str());
            fingerprint.text(&Document::from(unit).content_hash().to_string());
        }
        for question in haystack.answerable() {
            answerable += 1;
            fingerprint.question(question);
        }
    }
    let fingerprint = fingerprint.0.finalize().to_hex()[..32].to_owned();
    Ok(Survey { haystacks, units, answerable, fingerprint })
}

/// Hasher of a data set. Each text is preceded by its length, so that no two sequences read alike.
struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    fn question(&mut self, question: &EvalQuestion) {
        self.text(&question.id);
        self.text(&question.text);
        self.text(&question.kind);
        self.count(usize::from(question.is_abstention));
        self.count(question.references.len());
        for reference in &question.references {
            self.text(reference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Files;
    use super::*;

    const CORPUS: &str = r#"{"idx":0,"title":"Harbour","text":"Boats rest here."}"#;

    fn survey_of(corpus: &str, questions: &str) -> Result<Survey, Error> {
        let files = Files::of(&[("corpus.jsonl", corpus), ("questions.jsonl", questions)]);
        DatasetFormat::named("multihop").unwrap().survey(files.folder(), None, None)
    }

    fn question(answer: &str) -> String {
        format!(
            r#"{{"question_id":"q","question":"Where?",{answer}"type":"2hop","supporting":[0]}}"#
        )
    }

    #[test]
    fn whatever_changes_the_answers_changes_the_fingerprint() {
        let survey = survey_of(CORPUS, &question(r#""answer":"here","#)).unwrap();
        assert_eq!((survey.haystacks, survey.units, survey.answerable), (1, 1, 1));
        assert_eq!(survey.fingerprint.len(), 32);
        let same = survey_of(CORPUS, &question(r#""answer":"here","#)).unwrap();
        assert_eq!(survey, same);
        let other_text = CORPUS.replace("Boats", "Ships");
        let others = [
            survey_of(&other_text, &question(r#""answer":"here","#)).unwrap(),
            survey_of(CORPUS, &question(r#""answer":"there","#)).unwrap(),
            survey_of(CORPUS, &question(r#""answer":"here","answer_aliases":["port"],"#)).unwrap(),
        ];
        for other in others {
            assert_ne!(survey.fingerprint, other.fingerprint);
        }
    }

    #[test]
    fn a_data_set_without_answers_is_refused() {
        let error = survey_of(CORPUS, &question("")).unwrap_err();
        assert!(matches!(error, Error::NothingToScore), "{error:?}");
    }
}
