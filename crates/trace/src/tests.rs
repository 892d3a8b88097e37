//! Tests of both views as a whole, on three real questions and on arbitrary traces.

use proptest::prelude::*;

use crate::words::{cell, width};
use crate::{Trace, TraceCitation, TraceCost, TraceOutcome, TraceRange, TraceStep, svg, tree};

const MEMWALKER: &str = include_str!("../tests/examples/memwalker.json");
const QRMEM_REFLECT: &str = include_str!("../tests/examples/qrmem_reflect.json");
const DIRECT: &str = include_str!("../tests/examples/direct.json");

fn read(json: &str) -> Trace {
    Trace::read(json).unwrap()
}

/// Checks that tags are closed in the order in which they were opened and that attributes are
/// well-formed.
fn check_markup(svg: &str) {
    let mut reader = quick_xml::reader::Reader::from_str(svg);
    let mut open = 0;
    loop {
        use quick_xml::events::Event;
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(tag) => {
                open += 1;
                assert!(tag.attributes().all(|attribute| attribute.is_ok()));
            }
            Event::Empty(tag) => assert!(tag.attributes().all(|attribute| attribute.is_ok())),
            Event::End(_) => open -= 1,
            Event::GeneralRef(name) => {
                let name = name.decode().unwrap().into_owned();
                assert!(["amp", "lt", "gt", "quot"].contains(&name.as_str()), "{name}");
            }
            _ => {}
        }
    }
    assert_eq!(open, 0);
    let is_allowed =
        |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
    assert!(svg.chars().all(is_allowed));
    assert!(!svg.contains("NaN\"") && !svg.contains("inf\""));
}

#[test]
fn a_walk_is_shown_as_the_tree_it_visited() {
    let expected = "\
Who gave Theseus the thread with which he found his way out of the labyrinth?
memwalker on greek-myths: answered in 5.2 s

searched: 32 passages in 38 ms
  hybrid: Who gave Theseus the thread with which he found his way out of the labyrinth?
└─ 1. 0/4f1c9a
   │  Myths of Crete and Athens: the birth of Theseus and his road to Athens, the tribute to Minos,
   │  the labyrinth that Daedalus built, and the flight of Icarus.
   │  why:  it covers everything
   ├─ 2. daedalus#2.0 (0.48) ↩ turned back
   │  │  Daedalus flees from Athens to Crete, builds the labyrinth for Minos, and escapes with wings
   │  │  of wax and feathers.
   │  │  why:  The labyrinth was built by Daedalus, so that its way out may be told there.
   │  │  back: The rest is the flight from Crete, in which Theseus has no part.
   │  └─ 3. daedalus#1.1 (0.52) ↩ turned back
   │     │  Minos orders a prison for the Minotaur. Daedalus builds passages in which he himself can
   │     │  hardly find the way.
   │     │  why:  It speaks of the ways through the labyrinth.
   │     │  back: What is left below it is about the bull and the queen.
   │     └─ 4. daedalus#0.7 (0.55) [leaf] answers: no ↩ turned back
   │           Daedalus hardly finds his way back to the door.
   │           why:  It is about finding the way out.
   │           read: It tells how the labyrinth was built, and names nobody who gave a thread.
   └─ 5. theseus#2.0 (0.44)
      │  Theseus comes to Athens, sails to Crete with the tribute, kills the Minotaur with the help
      │  of Ariadne and returns with black sails.
      │  why:  Ariadne's help in Crete is what the question is about.
      └─ 6. theseus#1.3 (0.63)
         │  In Crete Ariadne falls in love with Theseus, and gives him what he needs to come back
         │  from the labyrinth.
         │  why:  It says that Ariadne gave him what he needed.
         └─ 7. theseus#0.14 (0.74) [leaf] answers: yes
               Ariadne gives him a ball of thread and tells him to fasten it at the door.
               why:  It names the thread.
               read: Ariadne gave him a ball of thread, as Daedalus had shown her.
walked: 7 nodes, 3 turns back, 6.1 kB of 81.4 kB read (7.5 %): a segment answers
judged: confidence 0.94, threshold 0.50 (the segment states who gave the thread to whom)

answer: Ariadne, the daughter of Minos, gave Theseus a ball of thread that Daedalus had shown her.
  [1] The Life of Theseus (theseus v2, bytes 18244..18391)
      \"Ariadne, who had fallen in love with him, gave him a ball of thread, as Daedalus had shown
      her, and told him to fasten it at the door.\"

cost: 9 model calls (7810 tokens sent, 604 received), 412 tokens embedded, 2 shards searched
share: 6.1 kB of 81.4 kB read (7.5 %)
";
    assert_eq!(tree(&read(MEMWALKER)), expected);
}

#[test]
fn a_navigation_is_shown_hop_by_hop() {
    let expected = "\
Where was the husband of the woman who built the ship Meridian born?
qrmem-reflect on harbour-letters: answered in 3.1 s

searched: 64 passages in 41 ms
  hybrid: Where was the husband of the woman who built the ship Meridian born?
took up: Meridian, ship
  why: the question names them
gathered: 3 segments, 2.4 kB
reflected: it does not suffice
  why: The segments tell where the Meridian sailed and who bought her.
  missing: Who built the ship Meridian?
hop 1: Meridian -- was built by --> Anna Lindqvist (0.53)
gathered: 5 segments, 4.1 kB
reflected: it does not suffice
  why: Anna Lindqvist built her, but nothing tells whom she married.
  missing: Who is the husband of Anna Lindqvist, and where was he born?
hop 2: Bert Aune -- born in Stavanger, married --> Anna Lindqvist (0.61)
gathered: 6 segments, 4.9 kB, 1 dropped for want of room
reflected: it suffices
  why: Her husband Bert Aune was born in Stavanger.
read: 6 passages, 48 sentences in 12 ms
  from: letters-1913 640..1420, letters-1911 4900..5800
judged: confidence 0.88, threshold 0.50 (both parts of the question are stated)

answer: In Stavanger: the Meridian was built by Anna Lindqvist, and her husband Bert Aune was born
        there.
  [1] Letters of 1911 (letters-1911 v1, bytes 5210..5282)
      \"The Meridian was built by Anna Lindqvist in the yard at Grimstad.\"
  [2] Letters of 1913 (letters-1913 v1, bytes 811..902)
      \"Bert Aune, born in Stavanger, married Anna Lindqvist on Saturday.\"

cost: 5 model calls (6020 tokens sent, 310 received), 1290 tokens embedded, 2 shards searched
share: 4.9 kB read
";
    assert_eq!(tree(&read(QRMEM_REFLECT)), expected);
}

#[test]
fn other_steps_are_shown_one_by_one() {
    let expected = "\
When does the night ferry to Fanø leave?
direct on timetables: not in memory in 35 ms

searched: 12 passages in 22 ms
  hybrid: When does the night ferry to Fanø leave?
read: 12 passages, 131 sentences in 9 ms
  from: ferries-2024 0..912, ferries-2023 400..1310
judged: confidence 0.21, threshold 0.50 (the passages tell departures by day only)

answer: not in memory

cost: 14 tokens embedded, 2 shards searched
";
    assert_eq!(tree(&read(DIRECT)), expected);
}

#[test]
fn figures_show_what_was_found_and_what_was_not() {
    let check = |json: &str, shown: &[&str]| {
        let figure = svg(&read(json));
        check_markup(&figure);
        for text in shown {
            assert!(figure.contains(text), "{text}");
        }
    };
    check(
        MEMWALKER,
        &[
            "✓ answers: Ariadne",
            "✗ does not answer:",
            "↩ back: The rest",
            ">theseus#0.14<",
            "7.5 %",
        ],
    );
    check(
        QRMEM_REFLECT,
        &["Missing: Who built the ship Meridian?", "was built by", "After hop 2: it suffices"],
    );
    check(DIRECT, &["Judged: not supported", "confidence 0.21, needed 0.50", "not in memory"]);
}

#[test]
fn a_memory_that_does_not_suffice_is_no_navigation() {
    let reflected = TraceStep::Reflected {
        suffices: false,
        reason: "1 point in memory".to_owned(),
        missing: "who built it".to_owned(),
    };
    let steps =
        vec![TraceStep::Evolved { number: 0, points: Vec::new(), brought: Vec::new() }, reflected];
    let figure = svg(&Trace { trace: steps, ..Trace::default() });
    assert!(figure.contains("Missing: who built it"));
    assert!(!figure.contains("Navigated"));
}

#[test]
fn of_many_nodes_the_way_to_the_answer_is_drawn() {
    let entered = |node: usize| TraceStep::Entered {
        node: format!("node {node}"),
        parent: String::new(),
        summary: String::new(),
        reason: String::new(),
        score: None,
    };
    let mut steps: Vec<TraceStep> = (0..200).map(entered).collect();
    let node = "node 199".to_owned();
    steps.push(TraceStep::LeafRead { node, answers: true, reason: "it says".to_owned() });
    let figure = svg(&Trace { trace: steps, ..Trace::default() });
    assert!(figure.contains(">node 199<") && figure.contains(">node 78<"));
    assert!(!figure.contains(">node 79<") && figure.contains("120 more nodes are not shown"));
}

#[test]
fn the_deepest_walk_is_shown() {
    let entered = |node: usize| TraceStep::Entered {
        node: node.to_string(),
        parent: node.checked_sub(1).map(|parent| parent.to_string()).unwrap_or_default(),
        summary: "below".to_owned(),
        reason: String::new(),
        score: None,
    };
    let trace = Trace { trace: (0..20_000).map(entered).collect(), ..Trace::default() };
    assert!(tree(&trace).contains("20000. 19999"));
    assert!(svg(&trace).contains("19988 more nodes are not shown"));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[abc]".prop_map(String::from),
        any::<String>(),
        "([a-z<&\"]{1,12} ){0,60}",
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..9_u64, any::<u64>()]
}

fn score() -> impl Strategy<Value = f32> {
    prop_oneof![-1.0..1.0_f32, prop::num::f32::NORMAL]
}

/// Generates whole milliseconds, which JSON preserves exactly.
fn millis() -> impl Strategy<Value = f64> {
    any::<u32>().prop_map(f64::from)
}

fn place() -> impl Strategy<Value = TraceRange> {
    (text(), number(), number(), number()).prop_map(|(document_id, version, start, end)| {
        TraceRange { document_id, version, start, end }
    })
}

fn step() -> impl Strategy<Value = TraceStep> {
    prop_oneof![
        (text(), text(), number(), prop::option::of(score()), millis()).prop_map(
            |(query, mode, hits, best_dense_score, took_ms)| TraceStep::Searched {
                query,
                mode,
                hits,
                best_dense_score,
                took_ms
            }
        ),
        (score(), score(), text()).prop_map(|(confidence, threshold, rationale)| {
            TraceStep::Judged { confidence, threshold, rationale }
        }),
        (number(), number(), millis(), prop::collection::vec(place(), 0..3)).prop_map(
            |(passages, sentences, took_ms, places)| TraceStep::Read {
                passages,
                sentences,
                took_ms,
                places
            }
        ),
        (text(), text(), text(), text(), prop::option::of(score())).prop_map(
            |(node, parent, summary, reason, score)| TraceStep::Entered {
                node,
                parent,
                summary,
                reason,
                score
            }
        ),
        (text(), text()).prop_map(|(node, reason)| TraceStep::TurnedBack { node, reason }),
        (text(), any::<bool>(), text()).prop_map(|(node, answers, reason)| TraceStep::LeafRead {
            node,
            answers,
            reason
        }),
        (number(), number(), number(), number(), text()).prop_map(
            |(nodes, turns, bytes_read, bytes_total, ended)| TraceStep::Walked {
                nodes,
                turns,
                bytes_read,
                bytes_total,
                ended
            }
        ),
        (prop::collection::vec(text(), 0..4), text())
            .prop_map(|(entities, reason)| TraceStep::EntitiesChosen { entities, reason }),
        (text(), text(), text(), text(), score(), text()).prop_map(
            |(head, relation, tail, to, score, reason)| TraceStep::EdgeFollowed {
                head,
                relation,
                tail,
                to,
                score,
                reason
            }
        ),
        (number(), number(), number()).prop_map(|(segments, dropped, bytes)| TraceStep::Gathered {
            segments,
            dropped,
            bytes
        }),
        (number(), prop::collection::vec(text(), 0..3), millis())
            .prop_map(|(lines, answers, took_ms)| TraceStep::Drafted { lines, answers, took_ms }),
        (any::<bool>(), text(), text()).prop_map(|(suffices, reason, missing)| {
            TraceStep::Reflected { suffices, reason, missing }
        }),
    ]
}

fn trace() -> impl Strategy<Value = Trace> {
    let outcome = prop::sample::select(vec![
        TraceOutcome::Unspecified,
        TraceOutcome::Answered,
        TraceOutcome::NotInMemory,
        TraceOutcome::AnsweredWithShardsMissing,
    ]);
    let citation = (place(), text(), text()).prop_map(|(place, title, quote)| {
        let TraceRange { document_id, version, start, end } = place;
        TraceCitation { document_id, title, start, end, quote, version }
    });
    let cost = number().prop_map(|number| TraceCost {
        model_calls: number,
        prompt_tokens: number,
        shards_searched: number,
        ..TraceCost::default()
    });
    let names = (text(), text(), text(), text());
    let lists = (
        prop::collection::vec(citation, 0..3),
        prop::collection::vec(step(), 0..40),
        prop::collection::vec(any::<u32>(), 0..3),
    );
    (names, outcome, lists, cost, millis()).prop_map(|(names, outcome, lists, cost, took_ms)| {
        let (question, strategy, corpus, answer) = names;
        let (citations, trace, shards_missing) = lists;
        Trace {
            question,
            strategy,
            corpus,
            outcome,
            answer,
            citations,
            trace,
            cost,
            shards_missing,
            took_ms,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_trace_is_shown(trace in trace()) {
        let shown = tree(&trace);
        for line in shown.lines() {
            prop_assert!(width(line, cell) <= 100.0, "{}", line);
        }
        let figure = svg(&trace);
        check_markup(&figure);
        prop_assert_eq!(svg(&trace), figure);
        for step in &trace.trace {
            prop_assert!(!step.line().contains('\n'));
        }
    }

    #[test]
    fn what_was_written_is_read_again(trace in trace()) {
        let json = serde_json::to_string(&trace).unwrap();
        prop_assert_eq!(Trace::read(&json).unwrap(), trace);
    }

    #[test]
    fn garbage_is_refused(
        text in any::<String>(),
        cut in 0..DIRECT.trim_end().len() - 2,
        at in 0..2000_usize,
        byte in any::<char>(),
    ) {
        prop_assert!(Trace::read(&text).is_err());
        prop_assert!(Trace::read(&DIRECT.chars().take(cut).collect::<String>()).is_err());
        let mut spoiled: Vec<char> = QRMEM_REFLECT.chars().collect();
        spoiled[at] = byte;
        // It may still be a trace, of another question.
        if let Ok(trace) = Trace::read(&spoiled.into_iter().collect::<String>()) {
            check_markup(&svg(&trace));
        }
    }
}
