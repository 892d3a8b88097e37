use clew_core::{Attributes, SpeakerRole, Turn, TurnId};
use proptest::prelude::*;

use super::*;
use crate::Unit;
use crate::dataset::Scoring;

/// Returns rounds of two sessions, said on the days of May 2030 that are their times.
fn haystack() -> Haystack {
    let units = [
        ("a:1", "a", 0, "I planted figs.", 1),
        ("a:2", "a", 1, "Which soil is best?", 1),
        ("b:1", "b", 0, "I ate a fig yesterday.", 9),
    ];
    let unit = |(id, session, number, text, day): (&str, &str, u32, &str, u32)| Unit {
        id: id.parse().unwrap(),
        title: String::new(),
        text: text.to_owned(),
        event_time: Some(at(day)),
        said: vec![Turn {
            id: TurnId { session: session.parse().unwrap(), number },
            speaker: String::new(),
            role: SpeakerRole::User,
            text: text.to_owned(),
            time: Some(at(day)),
            attributes: Attributes::new(),
        }],
    };
    Haystack {
        name: "h".to_owned(),
        units: units.map(unit).to_vec(),
        questions: vec![question("What did I eat on 8 May 2030?", Some(at(20)))],
        without_evidence: Vec::new(),
    }
}

fn at(day: u32) -> Timestamp {
    format!("2030-05-{day:02}T12:00:00Z").parse().unwrap()
}

fn question(text: &str, asked_at: Option<Timestamp>) -> EvalQuestion {
    EvalQuestion {
        id: "q".to_owned(),
        text: text.to_owned(),
        kind: "temporal-reasoning".to_owned(),
        groups: vec!["all".to_owned()],
        gold: vec!["b:1".parse().unwrap()],
        asked_at,
        is_abstention: false,
        references: Vec::new(),
        scoring: Scoring::Squad,
    }
}

fn settings(keys: &str) -> Settings {
    Settings {
        keys: keys.split(',').map(|name| name.parse().unwrap()).collect(),
        merging: vec![PartMerging::Key],
        mode: vec![SearchMode::Hybrid],
        smoothing: vec![None],
        time: vec![TimeUse::Ignore],
        strategies: Vec::new(),
    }
}

fn runs(settings: &Settings) -> Vec<String> {
    let run = |variant: &RetrievalVariant| {
        let run = variant.run("locomo", UnitKind::Turn);
        [run.keys, run.merging, run.mode, run.smoothing, run.time, run.strategy].join(" ")
    };
    settings.variants().iter().map(run).collect()
}

fn names(designs: &[KeyDesign]) -> Vec<String> {
    designs.iter().map(ToString::to_string).collect()
}

fn found(units: &[(&str, f32, u32)]) -> Vec<FoundUnit> {
    let found = |&(unit, score, day): &(&str, f32, u32)| FoundUnit {
        unit: unit.parse().unwrap(),
        score,
        time: Some(at(day)),
    };
    units.iter().map(found).collect()
}

/// Returns the ranking by the only variant of `settings`, if each index finds what is given for it,
/// whatever is asked.
fn ranked(settings: &Settings, found: &[Vec<FoundUnit>], k: usize) -> String {
    let (haystack, variants) = (haystack(), settings.variants());
    assert_eq!(variants.len(), 1);
    let plan = RetrievalPlan::try_new(&haystack, &variants, k).unwrap();
    let question = &haystack.questions[0];
    let finds = |(index, found): (usize, &Vec<FoundUnit>)| -> Finds {
        plan.lookups(index, question).into_iter().map(|lookup| (lookup, found.clone())).collect()
    };
    let finds: Vec<Finds> = found.iter().enumerate().map(finds).collect();
    assert_eq!(finds.len(), plan.indexes().len());
    let finds: Vec<&Finds> = finds.iter().collect();
    let ranking = plan.ranking(0, question, &finds).unwrap().unwrap();
    ranking.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn names_of_mergings_are_read_back() {
    for merging in MERGINGS {
        assert_eq!(merging.to_string().parse::<PartMerging>().unwrap(), merging);
    }
    let error = "both".parse::<PartMerging>().unwrap_err().to_string();
    assert!(error.contains("expected key or rank"), "{error}");
}

#[test]
fn settings_are_combined_and_one_part_is_not_merged() {
    let mut settings = settings("value,value+fact");
    settings.merging = vec![PartMerging::Key, PartMerging::Rank];
    settings.smoothing = vec![None, Some(Smoothing::TURNS)];
    settings.strategies = vec!["direct".to_owned()];
    assert_eq!(
        runs(&settings),
        [
            "value key hybrid none ignore search",
            "value key hybrid turns ignore search",
            "value key hybrid none ignore direct",
            "value+fact key hybrid none ignore search",
            "value+fact key hybrid turns ignore search",
            "value+fact rank hybrid none ignore search",
            "value+fact rank hybrid turns ignore search",
            "value+fact key hybrid none ignore direct",
        ]
    );
}

#[test]
fn the_same_texts_are_indexed_once() {
    let haystack = haystack();
    let mut settings = settings("value,user,value+fact,fact+value,fact");
    settings.merging = vec![PartMerging::Key, PartMerging::Rank];
    settings.strategies = vec!["direct".to_owned()];
    let variants = settings.variants();
    let plan = RetrievalPlan::try_new(&haystack, &variants, 10).unwrap();
    assert_eq!(names(plan.indexes()), ["value", "value+fact", "fact"]);
    let question = &haystack.questions[0];
    let depths = |index| plan.lookups(index, question).iter().map(|one| one.k).collect::<Vec<_>>();
    // Rankings are merged from more units than are wanted.
    assert_eq!([0, 1, 2].map(depths), [vec![10, 200], vec![10], vec![200, 10]]);
    let asked = |index| plan.strategies(index).count();
    assert_eq!([0, 1, 2].map(asked), [2, 2, 1]);
}

#[test]
fn ranks_of_parts_are_fused() {
    let mut settings = settings("value+fact");
    settings.merging = vec![PartMerging::Rank];
    let by_value = found(&[("a:1", 0.9, 1), ("b:1", 0.8, 9)]);
    let by_fact = found(&[("a:2", 7.0, 1), ("b:1", 6.0, 9)]);
    assert_eq!(ranked(&settings, &[by_value.clone(), by_fact], 10), "b:1 a:1 a:2");
    assert_eq!(ranked(&settings, &[by_value, Vec::new()], 1), "a:1");
}

#[test]
fn the_time_that_is_asked_about_boosts_or_filters() {
    let mut settings = settings("value");
    let haystack = haystack();
    let question = &haystack.questions[0];
    let range = question.asked_range().unwrap();
    assert_eq!((range.from, range.until), ("2030-05-08".parse().ok(), "2030-05-09".parse().ok()));
    let lists = [found(&[("a:1", 0.80, 1), ("a:2", 0.79, 8), ("b:1", 0.5, 9)])];
    for (time, depth, filter, expected) in [
        (TimeUse::Ignore, 2, TimeRange::default(), "a:1 a:2"),
        (TimeUse::Boost, DEEP, TimeRange::default(), "a:2 a:1"),
        (TimeUse::Filter, 2, range, "a:1 a:2"),
    ] {
        settings.time = vec![time];
        let variants = settings.variants();
        let plan = RetrievalPlan::try_new(&haystack, &variants, 2).unwrap();
        let mode = SearchMode::Hybrid;
        assert_eq!(plan.lookups(0, question), [Lookup { mode, range: filter, k: depth }]);
        assert_eq!(ranked(&settings, &lists, 2), expected, "{time:?}");
    }
}

#[test]
fn what_asks_about_no_time_is_searched_for_once() {
    let haystack = haystack();
    let mut settings = settings("value");
    settings.time = vec![TimeUse::Ignore, TimeUse::Filter];
    let variants = settings.variants();
    let plan = RetrievalPlan::try_new(&haystack, &variants, 10).unwrap();
    for (question, lookups) in [
        (question("What did I eat first?", Some(at(20))), 1),
        (question("What did I eat on 8 May 2030?", None), 1),
        (haystack.questions[0].clone(), 2),
    ] {
        assert_eq!(plan.lookups(0, &question).len(), lookups, "{question:?}");
    }
}

#[test]
fn merged_scores_are_smoothed_by_the_places_in_the_whole_haystack() {
    let mut settings = settings("value");
    let session = Smoothing { previous: 1.0, next: 0.0, session: 0.0 };
    settings.smoothing = vec![Some(session)];
    let lists = [found(&[("a:1", 0.9, 1), ("b:1", 0.5, 9), ("a:2", 0.4, 1)])];
    assert_eq!(ranked(&settings, &lists, 10), "a:1 a:2 b:1");
    let variants = settings.variants();
    assert_eq!(variants[0].run("locomo", UnitKind::Turn).smoothing, "1,0,0");
}

#[test]
fn ways_that_cannot_be_measured_are_refused() {
    let mut settings = settings("value");
    settings.time = vec![TimeUse::Boost];
    let variants = settings.variants();
    let mut undated = haystack();
    undated.questions[0].asked_at = None;
    let error = RetrievalPlan::try_new(&undated, &variants, 10).unwrap_err();
    assert!(matches!(error, Error::NoQuestionDates { .. }), "{error:?}");
    assert!(error.to_string().contains("longmemeval"), "{error}");
    undated.questions.clear();
    assert!(RetrievalPlan::try_new(&undated, &variants, 10).is_ok());

    settings.time = vec![TimeUse::Ignore];
    settings.smoothing = vec![Some(Smoothing::TURNS)];
    let mut passages = haystack();
    passages.units[0].said.clear();
    let error = RetrievalPlan::try_new(&passages, &settings.variants(), 10).unwrap_err();
    assert!(matches!(error, Error::NoTurns { .. }), "{error:?}");
}

#[test]
fn strategies_rank_themselves() {
    let mut settings = settings("value");
    settings.mode.clear();
    settings.strategies = vec!["direct".to_owned()];
    let (haystack, variants) = (haystack(), settings.variants());
    let plan = RetrievalPlan::try_new(&haystack, &variants, 10).unwrap();
    assert_eq!(plan.strategies(0).collect::<Vec<_>>(), [(0, "direct")]);
    assert_eq!(plan.lookups(0, &haystack.questions[0]), []);
    assert_eq!(plan.ranking(0, &haystack.questions[0], &[]).unwrap(), None);
}

proptest! {
    #[test]
    fn every_combination_is_a_way_of_its_own(
        keys in prop::collection::vec(prop::sample::select(vec!["value", "fact", "value+fact"]), 1..4),
        merging in prop::collection::vec(prop::sample::select(MERGINGS.to_vec()), 1..4),
        time in prop::sample::subsequence(vec![TimeUse::Ignore, TimeUse::Boost, TimeUse::Filter], 1..3),
    ) {
        let settings = Settings { merging, time, ..settings(&keys.join(",")) };
        let runs = runs(&settings);
        let different: std::collections::BTreeSet<&String> = runs.iter().collect();
        prop_assert_eq!(different.len(), runs.len());
        let merged = settings.merging.contains(&PartMerging::Key) && settings.merging.contains(&PartMerging::Rank);
        let of_keys = |name: &str| match (keys.contains(&name), name, merged) {
            (false, _, _) => 0,
            (true, "value+fact", true) => 2,
            (true, _, _) => 1,
        };
        let expected: usize = ["value", "fact", "value+fact"].map(of_keys).iter().sum();
        prop_assert_eq!(runs.len(), expected * settings.time.len());
    }

    #[test]
    fn fusing_a_ranking_with_itself_keeps_it(scores in prop::collection::vec(0.0f32..1.0, 3)) {
        let units = [("a:1", scores[0], 1), ("a:2", scores[1], 1), ("b:1", scores[2], 9)];
        let list = found(&units);
        let alone = ranked(&settings("value"), std::slice::from_ref(&list), 10);
        let mut twice = settings("value+fact");
        twice.merging = vec![PartMerging::Rank];
        prop_assert_eq!(ranked(&twice, &[list.clone(), list], 10), alone);
    }
}
