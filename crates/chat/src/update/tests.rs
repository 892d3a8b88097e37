use clew_core::{Attributes, TurnId};
use proptest::prelude::*;

use super::*;

/// Returns a statement of the user on a day.
fn said(day: u32, text: &str) -> Turn {
    Turn {
        id: TurnId { session: format!("day-{day:02}").parse().unwrap(), number: 0 },
        speaker: String::new(),
        role: SpeakerRole::User,
        text: text.to_owned(),
        time: format!("2024-05-{day:02}T10:00:00Z").parse().ok(),
        attributes: Attributes::new(),
    }
}

fn linked(turns: &[Turn]) -> Vec<(String, String)> {
    let all = turns.iter().flat_map(statements);
    updates(all).into_iter().map(|update| (update.older.text, update.newer.text)).collect()
}

#[track_caller]
fn assert_superseded(older: &str, newer: &str) {
    let links = linked(&[said(1, older), said(20, newer)]);
    assert_eq!(links, [(older.to_owned(), newer.to_owned())]);
}

#[track_caller]
fn assert_not_superseded(older: &str, newer: &str) {
    assert_eq!(linked(&[said(1, older), said(20, newer)]), [], "{older:?} {newer:?}");
}

#[test]
fn amounts_of_one_thing_are_updated() {
    for (older, newer) in [
        ("I keep four hives on my roof.", "By the way, I now keep 6 hives on my roof!"),
        (
            "My best time for the river run is 25:50.",
            "I got my best time for the river run down to 24:10.",
        ),
        (
            "I've read 12 chapters of the beekeeping book.",
            "I just read the 15th chapter of the beekeeping book.",
        ),
        (
            "I visit my aunt in Graz every two weeks.",
            "These days I visit my aunt in Graz every week.",
        ),
        ("I swim in the lake twice a week.", "I swim in the lake three times a week now."),
        ("We've had our dog Argo for a month now.", "We've had our dog Argo for 3 months now."),
        (
            "The bank approved me for a loan of $3,000 for my hives.",
            "The bank approved me for a loan of $4,500 for my hives.",
        ),
        (
            "I get up at 6:30 am on Sundays to feed my hens.",
            "I get up at 7 am on Sundays to feed my hens.",
        ),
        ("My phone has 20% of its battery left.", "My phone has 80% of its battery left."),
    ] {
        assert_superseded(older, newer);
    }
}

#[test]
fn places_posts_and_favourites_are_updated() {
    for (older, newer) in [
        ("I live in Graz with my hens.", "I just moved to Linz!"),
        ("I've been working at Miller Bakery.", "I now work for Hansen Mills."),
        ("I work as a junior baker.", "I just got promoted to head miller!"),
        ("My favorite honey is Acacia Gold.", "My favorite honey is Heather Moon these days."),
        ("I loved my recent boat trip to Norway.", "My most recent boat trip to Iceland was cold."),
        ("I live in Graz.", "I moved back to Linz last week."),
    ] {
        assert_superseded(older, newer);
    }
}

#[test]
fn what_is_over_is_taken_back() {
    for (older, newer) in [
        (
            "I take the tram to the bakery every morning.",
            "I no longer take the tram to the bakery.",
        ),
        (
            "I eat meat on most days of my week.",
            "I've recently stopped eating meat on weekdays, most of my days.",
        ),
        ("I take sugar in my morning tea.", "I don't take sugar in my tea anymore."),
        ("I run along the river.", "I used to run along the river."),
        ("I buy flour at the old mill.", "I've just switched from the old mill to a new one."),
    ] {
        assert_superseded(older, newer);
    }
}

#[test]
fn other_things_are_left_alone() {
    for (older, newer) in [
        // The same value.
        ("I keep four hives on my roof.", "I keep 4 hives on my roof."),
        // Planned.
        ("I keep four hives on my roof.", "I want to keep six hives on my roof."),
        ("I moved to Graz.", "I'm moving to Linz."),
        // About other things, people or places.
        ("I keep four hives on my roof.", "I keep six hens on my roof."),
        ("I keep four hives near Graz in the woods.", "I keep six hives near Linz in the woods."),
        ("I live in Graz.", "My sister lives in Linz."),
        ("I live in Graz.", "My sister and her husband moved to Linz."),
        ("My favorite honey is Acacia Gold.", "My favorite tea is Morning Mist."),
        // Events on other days.
        (
            "I sold 12 jars of honey at the market on 3 May.",
            "I sold 9 jars of honey at the market on 10 May.",
        ),
        (
            "I sold 12 jars at the market with Ben on 5/3.",
            "I sold 9 jars at the market with Ben on 5/10.",
        ),
        ("I bought a saw for $20 for my hives.", "I bought a ladder for $50 for my house."),
        // A distance in time is not a value.
        (
            "I bought my hives in the old town 3 months ago.",
            "I bought my hives in the old town 4 months ago.",
        ),
        // Formerly, or as a wish.
        ("I live in Graz.", "I used to live in Linz."),
        ("I live in Graz.", "I'd like to live in Linz."),
        ("I live in Graz.", "I moved to Linz in 1999."),
        ("I work at Hansen Mills.", "I want to work at Miller Bakery."),
        ("My favorite, Acacia Gold, is sweet.", "My favorite, Heather Moon, is dark."),
        // No change.
        ("I don't take the tram to the bakery.", "I no longer take the tram to the bakery."),
        ("I take the early ferry to the island.", "I switched to the early ferry to the island."),
        ("I take the tram to the bakery.", "I'm used to taking the tram to the bakery."),
        ("Give me 5 titles for the book of bees.", "Give me 9 titles for the book of bees."),
    ] {
        assert_not_superseded(older, newer);
    }
}

#[test]
fn a_chain_leads_from_each_statement_to_the_next() {
    let [four, six, nine] =
        ["four", "six", "nine"].map(|count| format!("I keep {count} hives on my roof."));
    let turns = [said(1, &four), said(2, &six), said(3, &nine)];
    assert_eq!(linked(&turns), [(four, six.clone()), (six, nine)]);
}

#[test]
fn one_speaker_does_not_update_another() {
    let by = |day: u32, speaker: &str, role: SpeakerRole, text: &str| Turn {
        speaker: speaker.to_owned(),
        role,
        ..said(day, text)
    };
    let (four, six) = ("I keep four hives on my roof.", "I keep six hives on my roof.");
    for ((a, role_a), (b, role_b), count) in [
        (("Ada", SpeakerRole::Other), ("Ada", SpeakerRole::Other), 1),
        (("Ada", SpeakerRole::Other), ("Ben", SpeakerRole::Other), 0),
        (("", SpeakerRole::Other), ("", SpeakerRole::Other), 0),
        (("", SpeakerRole::User), ("Ada", SpeakerRole::User), 1),
        (("Ada", SpeakerRole::User), ("Ada", SpeakerRole::Other), 0),
        (("", SpeakerRole::User), ("", SpeakerRole::Assistant), 0),
    ] {
        let links = linked(&[by(1, a, role_a, four), by(2, b, role_b, six)]);
        assert_eq!(links.len(), count, "{a} {role_a:?} {b} {role_b:?}");
    }
    for (older, newer) in [
        ("I live in Graz.", "I moved to Linz!! It's lovely."),
        ("My favorite honey is Acacia Gold.", "My favorite honey is Heather Moon."),
        ("I run along the river.", "I've just stopped running along the river."),
    ] {
        let [older, newer] =
            [(1, older), (2, newer)].map(|(day, text)| by(day, "Ada", SpeakerRole::Other, text));
        assert_eq!(linked(&[older, newer]).len(), 1);
    }
    let links =
        linked(&[by(1, "Ada", SpeakerRole::Other, four), by(2, "Ada", SpeakerRole::Other, six)]);
    assert_eq!(links[0].1, "Ada keep six hives on Ada's roof.");
}

#[test]
fn without_times_only_the_order_within_a_session_is_known() {
    let (four, six) = ("I keep four hives on my roof.", "I keep six hives on my roof.");
    let at = |session: &str, number: u32, timed: bool, text: &str| {
        let id = TurnId { session: session.parse().unwrap(), number };
        let turn = said(1, text);
        Turn { id, time: turn.time.filter(|_| timed), ..turn }
    };
    for (older, newer, expected) in [
        (at("a", 1, false, four), at("a", 2, false, six), vec![(four, six)]),
        (at("a", 2, false, four), at("a", 1, false, six), vec![(six, four)]),
        (at("a", 1, false, four), at("b", 2, false, six), vec![]),
        (at("a", 1, true, four), at("a", 2, false, six), vec![]),
        // At the same time, the order is by session and number.
        (at("a", 1, true, four), at("b", 1, true, six), vec![(four, six)]),
        (at("b", 1, true, four), at("a", 9, true, six), vec![(six, four)]),
        (at("a", 2, true, four), at("a", 1, true, six), vec![(six, four)]),
    ] {
        let links = linked(&[older, newer]);
        let links: Vec<(&str, &str)> = links.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(links, expected);
    }
}

#[test]
#[ignore = "prints how long it takes"]
fn three_hundred_statements_take_milliseconds() {
    for text in [
        "I keep nine hives on my roof in the old town.",
        "On {day} May I sold {n} jars of honey at the market in the old town.",
        "I like to talk about bees with my friends at the market in the old town.",
    ] {
        let day = |n: u32| {
            let text = text.replace("{day}", &(1 + n % 28).to_string());
            let id = TurnId { session: format!("s{n}").parse().unwrap(), number: 0 };
            Turn { id, ..said(1 + n % 28, &text.replace("{n}", &n.to_string())) }
        };
        let turns: Vec<Turn> = (0..300).map(day).collect();
        let all: Vec<Statement> = turns.iter().flat_map(statements).collect();
        let started = std::time::Instant::now();
        let count = updates(all.clone()).len();
        println!("{} statements, {count} links, {:?}: {text}", all.len(), started.elapsed());
    }
}

/// Session and number.
type Place = (u32, u32);
/// Speaker, text and day.
type Choice = ((&'static str, SpeakerRole), &'static str, Option<u32>);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let text = prop::sample::select(vec![
        "I keep four hives on my roof.",
        "I keep six hives on my roof. I live in Graz.",
        "I keep nine hives on my roof.",
        "I no longer keep hives on my roof.",
        "I live in Graz.",
        "I moved to Linz. I keep 12 hives on my roof.",
        "Lovely weather in my town today.",
    ]);
    let speaker = prop::sample::select(vec![
        ("", SpeakerRole::User),
        ("Ada", SpeakerRole::Other),
        ("Ben", SpeakerRole::Other),
    ]);
    let place = ((0u32..3), (0u32..4));
    let turn = (speaker, text, proptest::option::of(1u32..5));
    proptest::collection::btree_map(place, turn, 0..12).prop_map(|turns| {
        let turn = |(place, choice): (Place, Choice)| {
            let ((session, number), ((speaker, role), text, day)) = (place, choice);
            let id = TurnId { session: format!("s{session}").parse().unwrap(), number };
            let time = day.and_then(|day| said(day, "").time);
            Turn {
                id,
                speaker: speaker.to_owned(),
                role,
                text: text.to_owned(),
                time,
                attributes: Attributes::new(),
            }
        };
        turns.into_iter().map(turn).collect()
    })
}

proptest! {
    #[test]
    fn updates_depend_on_the_set_of_turns_alone(
        (turns, delivered) in turns().prop_flat_map(|turns| {
            let often = [&turns[..], &turns[..turns.len() / 2]].concat();
            (Just(turns), Just(often).prop_shuffle())
        })
    ) {
        prop_assert_eq!(linked(&turns), linked(&delivered));
    }

    #[test]
    fn updates_lead_to_later_statements_of_the_same_speaker(turns in turns()) {
        for Update { older, newer } in updates(turns.iter().flat_map(statements)) {
            prop_assert_eq!(&older.speaker, &newer.speaker);
            prop_assert_eq!(older.time.is_some(), newer.time.is_some());
            prop_assert!(older.time <= newer.time);
            if older.time == newer.time {
                prop_assert!((&older.turn, older.start) < (&newer.turn, newer.start));
            }
        }
    }

    #[test]
    fn chains_end(turns in turns()) {
        let updates = updates(turns.iter().flat_map(statements));
        for update in &updates {
            let mut last = &update.newer;
            let mut steps = 0;
            while let Some(next) = updates.iter().find(|next| next.older == *last) {
                last = &next.newer;
                steps += 1;
                prop_assert!(steps <= updates.len());
            }
            prop_assert!(updates.iter().all(|other| other.older != *last));
        }
        let mut older: Vec<&Statement> = updates.iter().map(|update| &update.older).collect();
        older.dedup();
        prop_assert_eq!(older.len(), updates.len());
    }

    #[test]
    fn any_text_is_compared(
        texts in proptest::collection::vec(
            "\\PC{0,60}|(I |my |[0-9]{1,3}|[a-zé$%:/.,'’-]{0,6}| |every |other |week|am|May |no longer |used to |favorite |, ){0,30}",
            1..5,
        )
    ) {
        let turns: Vec<Turn> = (1..).zip(&texts).map(|(day, text)| said(day, text)).collect();
        let _ = linked(&turns);
        for turn in &turns {
            for statement in statements(turn) {
                prop_assert!(turn.text.get(statement.start..).is_some());
            }
        }
    }
}
