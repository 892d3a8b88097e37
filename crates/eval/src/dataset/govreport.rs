//! GovReport (Huang et al., NAACL 2021) in the version of L-Eval: summaries of reports of the US
//! government.
//!
//! File: `govreport_leval.jsonl` or L-Eval's own `gov_report_summ.jsonl`. Each report has one
//! request to summarise it and one reference summary.

use super::leval::{self, Task};
use super::{DatasetFormat, Haystacks, Source, UnitKind};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "govreport",
    units: &[UnitKind::Document],
    splits: &[],
    has_evidence: false,
    open,
};

const FILES: [&str; 2] = ["govreport_leval.jsonl", "gov_report_summ.jsonl"];

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    leval::open(source, FORMAT.name, &FILES, |question, answer| {
        Ok(Task {
            text: question.to_owned(),
            kind: "summary",
            references: vec![answer.to_owned()],
            scoring: Scoring::RougeL,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Files, texts};
    use super::*;

    #[test]
    fn a_report_is_a_haystack_with_a_summary() {
        let line = r#"{"doc_id":"bees","document":"Bees are counted yearly.","questions":["Summarise."],"answers":["Bees are counted."]}"#;
        let files = Files::of(&[("govreport_leval.jsonl", line)]);
        let haystack = files.read("govreport", Some("document"), None).unwrap().remove(0);
        assert_eq!(texts(&haystack), ["Bees are counted yearly."]);
        let question = haystack.answerable().next().unwrap();
        assert_eq!(question.references, ["Bees are counted."]);
        assert_eq!((&*question.kind, &question.scoring), ("summary", &Scoring::RougeL));
    }
}
