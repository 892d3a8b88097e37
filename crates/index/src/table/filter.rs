//! Predicates over table rows, built as expressions: a caller's text is never parsed as SQL.

use clew_core::{
    AttributeName, AttributeTest, AttributeValue, Condition, CorpusTreeKey, DocumentId, Filter,
    Labels, Recipe, Timestamp, Version,
};
use lancedb::datafusion::functions_nested::expr_fn::array_has;
use lancedb::datafusion::prelude::{Expr, lit};
use lancedb::expr::col;

use crate::table::column;
use crate::table::condition::meets;
use crate::table::rows::arrays::text_attribute;

/// Returns the condition that a search's filter puts on a row of `chunks` or `sources`, or `None`
/// if there is none.
pub(crate) fn of_filter(filter: &Filter) -> Option<Expr> {
    let mut conditions = Vec::new();
    if !filter.documents.is_empty() {
        conditions.push(documents(&filter.documents));
    }
    for (name, value) in &filter.attributes {
        conditions.push(has_attribute(name, value));
    }
    conditions.extend(filter.condition.as_ref().map(of_condition));
    if let Some(from) = filter.event_time.from {
        conditions.push(col(column::EVENT_TIME).gt_eq(lit(from.as_micros())));
    }
    if let Some(until) = filter.event_time.until {
        conditions.push(col(column::EVENT_TIME).lt(lit(until.as_micros())));
    }
    conditions.into_iter().reduce(Expr::and)
}

/// Returns the condition that a condition on attributes puts on a row. A text that an attribute
/// must equal is asked for as it is stored, so that the index of attributes is used.
fn of_condition(condition: &Condition) -> Expr {
    match condition {
        Condition::Attribute(name, AttributeTest::Eq(AttributeValue::Text(text))) => {
            has_attribute(name, text)
        }
        Condition::All(parts) => {
            let all = parts.iter().map(of_condition).reduce(Expr::and);
            all.unwrap_or_else(|| lit(true))
        }
        Condition::Any(_) | Condition::Not(_) | Condition::Attribute(..) => meets(condition),
    }
}

fn has_attribute(name: &AttributeName, text: &str) -> Expr {
    array_has(col(column::ATTRIBUTES), lit(text_attribute(name, text)))
}

/// Returns the condition that access puts on a row of `chunks` or `sources`, or `None` if there is
/// none. `sets` yields the sets of labels that rows carry, each with whether the caller sees
/// documents that carry it. Rows with any other set are not visible anyway, so the condition admits
/// or excludes them, whichever is shorter.
pub(crate) fn seen<'a>(sets: impl Iterator<Item = (&'a Labels, bool)>) -> Option<Expr> {
    let (seen, hidden): (Vec<_>, Vec<_>) = sets.partition(|(_, is_seen)| *is_seen);
    if hidden.is_empty() {
        return None;
    }
    let labels = || col(column::LABELS);
    let negated = hidden.len() < seen.len();
    let listed = if negated { hidden } else { seen };
    let listed: Vec<Expr> = listed.into_iter().map(|(labels, _)| lit(labels.to_string())).collect();
    match listed.is_empty() {
        true => Some(labels().is_null()),
        false => Some(labels().is_null().or(labels().in_list(listed, negated))),
    }
}

/// Selects rows of `sources` whose event time is before a time, or which have no event time and
/// were accepted before.
pub(crate) fn older_than(oldest: Timestamp) -> Expr {
    let before = |name| col(name).lt(lit(oldest.as_micros()));
    let accepted = col(column::EVENT_TIME).is_null().and(before(column::ACCEPTED_AT));
    before(column::EVENT_TIME).or(accepted)
}

/// Selects rows of any of these documents.
pub(crate) fn documents<'a>(ids: impl IntoIterator<Item = &'a DocumentId>) -> Expr {
    let ids = ids.into_iter().map(|id| lit(id.as_str())).collect();
    col(column::DOCUMENT_ID).in_list(ids, false)
}

/// Selects rows of a document's version.
pub(crate) fn version(id: &DocumentId, version: Version) -> Expr {
    documents([id]).and(col(column::VERSION).eq(lit(version.0)))
}

/// Selects rows that a recipe made of a document's version.
pub(crate) fn derived(id: &DocumentId, of: Version, recipe: Recipe) -> Expr {
    version(id, of).and(col(column::RECIPE).eq(lit(recipe.0)))
}

/// Selects nodes of one level of document trees, in a range of ordinals.
pub(crate) fn nodes(level: u32, ordinals: std::ops::Range<u32>) -> Expr {
    let ordinal = || col(column::ORDINAL);
    let in_range = ordinal().gt_eq(lit(ordinals.start)).and(ordinal().lt(lit(ordinals.end)));
    col(column::LEVEL).eq(lit(level)).and(in_range)
}

/// Selects the roots of these documents' trees.
pub(crate) fn roots<'a>(ids: impl IntoIterator<Item = &'a DocumentId>) -> Expr {
    documents(ids).and(col(column::IS_ROOT))
}

/// Selects all nodes of the corpus tree.
pub(crate) fn above_documents() -> Expr {
    col(column::DOCUMENT_ID).eq(lit(""))
}

/// Selects nodes of the corpus tree by their keys.
pub(crate) fn upper<'a>(keys: impl IntoIterator<Item = &'a CorpusTreeKey>) -> Expr {
    let keys = keys.into_iter().map(|key| lit(key.to_string())).collect();
    above_documents().and(col(column::KEY).in_list(keys, false))
}

/// Returns a condition that is met by rows that meet any of `conditions`, as a balanced tree.
/// Returns `None` if there is no condition.
pub(crate) fn any_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => left.or(right),
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

#[cfg(test)]
mod tests {
    use clew_core::TimeRange;

    use super::*;

    #[test]
    fn an_empty_filter_asks_nothing() {
        assert_eq!(of_filter(&Filter::default()), None);
        assert_eq!(any_of(Vec::new()), None);
    }

    #[test]
    fn every_part_of_a_filter_is_asked_for() {
        let filter = Filter {
            documents: vec!["a".parse().unwrap(), "it's".parse().unwrap()],
            attributes: vec![("lang".to_owned().try_into().unwrap(), "rust".to_owned())],
            condition: Some("year > 2020 and team = storage".parse().unwrap()),
            event_time: TimeRange {
                from: Some(Timestamp::from_micros(1)),
                until: Some(Timestamp::from_micros(2)),
            },
        };
        let text = of_filter(&filter).unwrap().to_string();
        for part in [
            "document_id IN",
            "it's",
            "lang=rust",
            "meets_condition",
            "team=storage",
            "event_time >=",
            "event_time <",
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
    }

    #[test]
    fn access_asks_for_the_shorter_list_of_label_sets() {
        let labels = |text: &str| Labels::parse([text]).unwrap();
        let sets = [labels("a"), labels("b"), labels("c")];
        let asked = |of_each: [bool; 3]| seen(sets.iter().zip(of_each));
        assert_eq!(asked([true; 3]), None);
        let cases = [
            ([false; 3], "labels IS NULL"),
            ([true, false, false], r#"labels IS NULL OR labels IN ([Utf8("a")])"#),
            ([true, false, true], r#"labels IS NULL OR labels NOT IN ([Utf8("b")])"#),
        ];
        for (of_each, expected) in cases {
            assert_eq!(asked(of_each).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn many_conditions_make_a_shallow_tree() {
        let conditions: Vec<Expr> =
            (0..200).map(|i| version(&"a".parse().unwrap(), Version(i))).collect();
        let mut depth = 0;
        let mut expr = &any_of(conditions).unwrap();
        while let Expr::BinaryExpr(binary) = expr {
            depth += 1;
            expr = &binary.left;
        }
        assert!(depth < 12, "{depth}");
    }
}
