//! The steps of a question as a picture: time from left to right, a row for each step, and what the
//! step touched.

use std::time::Duration;

use maud::{Markup, html};

use crate::picture::{Frame, Reading, picture, px, shortened, times};
use crate::steps::{Taken, Touched};
use crate::text::{counted, lasted};

/// Most steps that are drawn. The list beside the picture has all.
const MOST_ROWS: usize = 60;
/// Most touched things of a row.
const MOST_TOUCHED: usize = 4;
/// Most characters of one of them.
const NAME: usize = 22;
/// Width of a character, on the high side.
const CHARACTER: f64 = 8.6;
const ROW: f64 = 28.0;
/// Where the times of a row begin, and how wide the time of all is.
const LANE: (f64, f64) = (150.0, 260.0);
/// Where the touched things of a row begin: behind how long the step took, which is told behind its
/// bar.
const THINGS: f64 = LANE.0 + LANE.1 + 72.0;
/// Ticks of the axis, at most.
const TICKS: f64 = 4.0;

/// Returns the steps of a question as a picture.
pub(crate) fn timeline(name: &str, steps: &[Taken]) -> Markup {
    let rows = &steps[..steps.len().min(MOST_ROWS)];
    let left_out = steps.len() - rows.len();
    let whole = millis(rows.last().map_or(Duration::ZERO, |taken| taken.at)).max(0.1);
    let x = |at: f64| LANE.0 + LANE.1 * (at / whole).clamp(0.0, 1.0);
    let height = ROW * times(rows.len());
    let things: Vec<(Markup, f64)> =
        (0..).zip(rows).map(|(row, taken)| things(&taken.step.touched, middle(row))).collect();
    let right = things.iter().map(|(_, right)| *right).fold(THINGS, f64::max);
    let drawn = html! {
        @for tick in ticks(whole) {
            line class="tick" x1=(px(x(tick))) x2=(px(x(tick))) y1="0" y2=(px(height)) {}
            text class="words" x=(px(x(tick))) y=(px(height + 16.0)) text-anchor="middle" {
                (lasted(Duration::from_secs_f64(tick / 1e3)))
            }
        }
        @for ((row, taken), (things, _)) in rows.iter().enumerate().zip(&things) {
            @let y = middle(row);
            @let (begin, end) = spent(rows, row);
            @let width = (x(end) - x(begin)).max(3.0);
            g {
                title { (row + 1) ". " (taken.step.kind) ": " (shortened(&taken.step.said, 200)) }
                text class="step" x="0" y=(px(y + 5.0)) { (row + 1) ". " (taken.step.kind) }
                rect class="bar" x=(px(x(begin))) y=(px(y - 6.0)) width=(px(width)) height="12" rx="2" {}
                text class="words" x=(px(x(begin) + width + 5.0)) y=(px(y + 4.0)) {
                    (lasted(Duration::from_secs_f64((end - begin) / 1e3)))
                }
                (things)
            }
        }
        @if left_out > 0 {
            text class="step" x="0" y=(px(height + 36.0)) { (counted(left_out as u64, "later step")) " left out" }
        }
    };
    let below = if left_out > 0 { 48.0 } else { 26.0 };
    let frame = Frame { left: -8.0, top: -4.0, width: right + 16.0, height: height + below + 4.0 };
    html! {
        (picture(name, Reading::Whole, frame, &drawn))
        p class="legend" aria-hidden="true" {
            @for (name, touched) in symbols() {
                span { svg class="symbol" width="18" height="18" viewBox="-9 -9 18 18" { (symbol(&touched, 0.0, 0.0)) } (name) }
            }
        }
    }
}

fn middle(row: usize) -> f64 {
    ROW * (times(row) + 0.5)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns when a step began and ended, in milliseconds. A step that does not tell how long it took
/// began when the one before it ended.
fn spent(rows: &[Taken], row: usize) -> (f64, f64) {
    let end = millis(rows[row].at);
    let before = row.checked_sub(1).map_or(0.0, |before| millis(rows[before].at));
    let begin = rows[row].step.took.map_or(before, |took| (end - millis(took)).max(0.0));
    (begin.min(end), end)
}

/// Returns round times within a span of milliseconds, which begin at 0.
fn ticks(whole: f64) -> impl Iterator<Item = f64> {
    let least = whole / TICKS;
    let tens = 10.0_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|times| times * tens).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * tens);
    (0_u32..=8).map(move |tick| f64::from(tick) * step).take_while(move |tick| *tick <= whole)
}

/// Returns what a step touched, from left to right, and where it ends.
fn things(touched: &[Touched], y: f64) -> (Markup, f64) {
    let mut right = THINGS;
    let mut drawn = Vec::new();
    for one in touched.iter().take(MOST_TOUCHED) {
        let name = shortened(one.name(), NAME);
        drawn.push(html! {
            (symbol(one, right + 6.0, y))
            text class="thing" x=(px(right + 16.0)) y=(px(y + 5.0)) { (name) }
        });
        right += 28.0 + times(name.chars().count()) * CHARACTER;
    }
    let more = touched.len().saturating_sub(MOST_TOUCHED);
    let markup = html! {
        @for one in &drawn { (one) }
        @if more > 0 { text class="words" x=(px(right)) y=(px(y + 5.0)) { "+" (more) } }
    };
    (markup, if more > 0 { right + 40.0 } else { right })
}

/// Returns one of each kind of what steps touch, with its name.
fn symbols() -> [(&'static str, Touched); 3] {
    [
        ("passage", Touched::Passage(Default::default())),
        ("node of a tree", Touched::Node(String::new())),
        ("entity", Touched::Entity(String::new())),
    ]
}

fn symbol(of: &Touched, x: f64, y: f64) -> Markup {
    html! {
        @match of {
            Touched::Passage(_) => {
                rect class="touched passage" x=(px(x - 5.0)) y=(px(y - 5.0)) width="10" height="10" {}
            }
            Touched::Node(_) => {
                polygon class="touched node"
                    points=(format!("{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}", y - 6.0, x + 6.0, y + 5.0, x - 6.0, y + 5.0)) {}
            }
            Touched::Entity(_) => circle class="touched entity" cx=(px(x)) cy=(px(y)) r="5.5" {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Step;

    fn taken(at: u64, took: Option<u64>, touched: Vec<Touched>) -> Taken {
        let took = took.map(Duration::from_millis);
        let step = Step { kind: "Read", said: "<b>".to_owned(), why: String::new(), took, touched };
        Taken { step, at: Duration::from_millis(at) }
    }

    #[test]
    fn a_step_lasts_as_long_as_it_says_or_else_since_the_one_before() {
        let rows =
            [taken(10, Some(4), vec![]), taken(30, None, vec![]), taken(31, Some(90), vec![])];
        let spent: Vec<(f64, f64)> = (0..3).map(|row| spent(&rows, row)).collect();
        assert_eq!(spent, [(6.0, 10.0), (10.0, 30.0), (0.0, 31.0)]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let told = |whole| ticks(whole).collect::<Vec<f64>>();
        assert_eq!(told(100.0), [0.0, 50.0, 100.0]);
        assert_eq!(told(7.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(told(1999.0), [0.0, 500.0, 1000.0, 1500.0]);
        for whole in [0.1, 0.37, 12.0, 99_999.0] {
            assert!((2..=6).contains(&told(whole).len()), "{whole}: {:?}", told(whole));
        }
    }

    #[test]
    fn every_step_has_a_row_up_to_a_limit() {
        let entities = (0..6).map(|n| Touched::Entity(format!("<i>{n}"))).collect();
        let mut steps = vec![taken(1, None, entities)];
        steps.extend((2..70).map(|at| taken(at, None, vec![])));
        let told = timeline("Steps", &steps).into_string();
        assert_eq!(told.matches("class=\"bar\"").count(), MOST_ROWS);
        assert!(told.contains("9 later steps left out"), "{told}");
        assert!(told.contains("&lt;i&gt;3") && !told.contains("&lt;i&gt;4"), "{told}");
        assert!(told.contains(">+2<") && !told.contains("<i>") && !told.contains("<b>"), "{told}");
    }
}
