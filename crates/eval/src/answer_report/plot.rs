//! Plots as SVG within a page. Colours are classes of the page's style; a number or a text beside
//! each colour says the same.

use clew_text::escaped;

use super::colours::series;
use crate::MetricMean;
use crate::table::{amount, interval, per_cent};

const WIDTH: f64 = 600.0;
const FONT: f64 = 12.0;

/// Run as a point of a plot.
pub(super) struct Point {
    pub label: String,
    /// Position to the right: at least 0.
    pub x: f64,
    pub y: MetricMean,
}

/// Draws points with 95 % intervals, numbered from 1 in their order: quality in per cent upwards,
/// cost to the right.
pub(super) fn scatter(title: &str, x_name: &str, points: &[Point]) -> String {
    let (left, right, top, bottom) = (44.0, WIDTH - 28.0, 16.0, 300.0);
    let least = points.iter().map(|point| point.x).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.x).fold(0.0, f64::max);
    let low = points.iter().map(|point| point.y.ci95[0]).fold(1.0, f64::min);
    let high = points.iter().map(|point| point.y.ci95[1]).fold(0.0, f64::max);
    // A run that reads everything would push all others together.
    let x_axis = if least >= 1.0 && most > 20.0 * least {
        Axis::of_magnitudes(least, most)
    } else {
        Axis::over(0.0, most.max(1.0))
    };
    let y_axis = Axis::over(100.0 * low, (100.0 * high).max(100.0 * low + 1.0));
    let x_of = |x: f64| left + (right - left) * x_axis.part(x);
    let y_of = |fraction: f64| bottom - (bottom - top) * y_axis.part(100.0 * fraction);
    let mut body = String::new();
    for tick in &y_axis.ticks {
        let y = y_of(tick / 100.0);
        body += &format!(
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            left - 8.0,
            y + 4.0,
            tick_text(*tick),
        );
    }
    for tick in &x_axis.ticks {
        let x = x_of(*tick);
        let y = bottom + 18.0;
        body +=
            &format!("<text class=\"middle\" x=\"{x:.1}\" y=\"{y}\">{}</text>\n", tick_text(*tick));
    }
    body += &format!(
        "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        f64::midpoint(left, right),
        bottom + 38.0,
        escaped(x_name),
    );
    let dots: Vec<_> = points.iter().map(|point| (x_of(point.x), y_of(point.y.mean))).collect();
    for (index, (point, (x, y))) in points.iter().zip(&dots).enumerate() {
        let [y_low, y_high] = point.y.ci95.map(y_of);
        body += &format!(
            "<g class=\"{}\"><title>{}: {} % ({}) at {}</title>\
             <line class=\"whisker\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y_low:.1}\" y2=\"{y_high:.1}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/></g>\n",
            series(index),
            escaped(&point.label),
            per_cent(point.y.mean),
            interval(point.y.ci95),
            amount(point.x),
        );
    }
    // Numbers are drawn last, above all points.
    for (number, (x, y)) in (1..).zip(number_places(&dots, left, bottom)) {
        body += &format!("<text class=\"on\" x=\"{x:.1}\" y=\"{y:.1}\">{number}</text>\n");
    }
    let said = points.iter().enumerate().map(|(index, point)| {
        format!(
            "{}: {}, {} per cent at {}. ",
            index + 1,
            point.label,
            per_cent(point.y.mean),
            amount(point.x)
        )
    });
    svg("scatter", title, &said.collect::<String>(), bottom + 48.0, &body)
}

/// Width and height of the number of a point.
const NUMBER: (f64, f64) = (17.0, FONT);

/// Returns the starts of the base lines of the numbers of `dots`, right of `left` and above
/// `bottom`. Each number stands beside its dot, where it covers the fewest numbers and dots.
fn number_places(dots: &[(f64, f64)], left: f64, bottom: f64) -> Vec<(f64, f64)> {
    let (wide, high) = NUMBER;
    let mut places: Vec<(f64, f64)> = Vec::with_capacity(dots.len());
    for &(x, y) in dots {
        // Numbers of dots at the same position stand in rows.
        let columns = (0..4).flat_map(|at| {
            let aside = 8.0 + f64::from(at) * wide;
            [x + aside, x - aside - wide]
        });
        let free = columns.flat_map(|x| [(x, y - 4.0), (x, y + 13.0)]);
        let covered = |&(x, y): &(f64, f64)| {
            let is_out = x < left || x + wide > WIDTH || y > bottom;
            let is_on_number = |(other_x, other_y): &&(f64, f64)| {
                (other_x - x).abs() < wide - 0.5 && (other_y - y).abs() < high
            };
            let is_on_dot = |(dot_x, dot_y): &&(f64, f64)| {
                (x - 4.0..x + wide + 2.0).contains(dot_x) && (y - 14.0..y + 4.0).contains(dot_y)
            };
            let numbers = places.iter().filter(is_on_number).count();
            // A number on a dot can still be read.
            let dots = dots.iter().filter(is_on_dot).count();
            (is_out, numbers, dots)
        };
        let place = free.min_by_key(covered).expect("there are places on both sides");
        places.push(place);
    }
    places
}

/// Bars of one group, one for each run; `None` if the run has no such question.
pub(super) struct Bars<'a> {
    pub group: &'a str,
    pub runs: Vec<Option<MetricMean>>,
}

/// Draws horizontal bars from 0 to 100 per cent with 95 % intervals. Bars of several runs stand
/// below the name of their group, each beside its number, from 1, and its label.
pub(super) fn bars(title: &str, labels: &[String], groups: &[Bars<'_>]) -> String {
    const BAR: f64 = 14.0;
    const GAP: f64 = 10.0;
    const HEAD: f64 = 20.0;
    let has_heads = labels.len() > 1;
    let name = |bars: &Bars<'_>, index: usize| {
        if has_heads { format!("{} {}", index + 1, labels[index]) } else { bars.group.to_owned() }
    };
    let names = groups.iter().flat_map(|bars| (0..labels.len()).map(|index| name(bars, index)));
    let longest = names.map(|name| width(&shortened(&name))).fold(0.0, f64::max);
    let (left, right) = (longest + 10.0, WIDTH - 116.0);
    let x_of = |fraction: f64| left + (right - left) * fraction;
    let head = if has_heads { HEAD } else { 0.0 };
    let bottom = 24.0 + groups.len() as f64 * (head + labels.len() as f64 * (BAR + 2.0) + GAP);
    let mut body = String::new();
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let x = x_of(tick);
        body += &format!(
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"20\" y2=\"{bottom:.1}\"/>\
             <text class=\"middle\" x=\"{x:.1}\" y=\"{FONT}\">{:.0}</text>\n",
            100.0 * tick,
        );
    }
    let (mut y, mut said) = (24.0, String::new());
    for bars in groups {
        if has_heads {
            let group = escaped(bars.group);
            body +=
                &format!("<text class=\"on head\" x=\"0\" y=\"{:.1}\">{group}</text>\n", y + 13.0);
        }
        y += head;
        for (index, estimate) in bars.runs.iter().enumerate() {
            let text_y = y + 11.0;
            let name = name(bars, index);
            body += &format!(
                "<text class=\"end\" x=\"{:.1}\" y=\"{text_y:.1}\">{}</text>\n",
                left - 8.0,
                escaped(&shortened(&name)),
            );
            if let Some(estimate) = estimate {
                let value = format!("{} ({})", per_cent(estimate.mean), interval(estimate.ci95));
                let [low, high] = estimate.ci95.map(x_of);
                let whole = if has_heads { format!("{}, {name}", bars.group) } else { name };
                body += &format!(
                    "<g class=\"{}\"><title>{}: {value}, n = {}</title>\
                     <rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
                     <line class=\"whisker over\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                     <text class=\"end\" x=\"{WIDTH}\" y=\"{text_y:.1}\">{value}</text></g>\n",
                    series(index),
                    escaped(&whole),
                    estimate.n,
                    (x_of(estimate.mean) - left).max(1.0),
                    y + BAR / 2.0,
                    y + BAR / 2.0,
                );
                said += &format!("{whole}: {value}. ");
            }
            y += BAR + 2.0;
        }
        y += GAP;
    }
    svg("bars", title, &said, bottom, &body)
}

/// Returns the maximum width of `text` in common fonts, of which DejaVu Sans is the widest.
fn width(text: &str) -> f64 {
    let wide = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '&' | '#' | '~' => 0.84,
        _ if c.is_ascii() => 0.64,
        _ => 1.3,
    };
    FONT * text.chars().map(wide).sum::<f64>()
}

/// Shortens `name` to the room beside the bars.
fn shortened(name: &str) -> String {
    const ROOM: f64 = 236.0;
    let mut shortened = name.to_owned();
    while width(&shortened) > ROOM {
        // Remove the mark of the previous iteration, and a character before it.
        shortened.truncate(shortened.trim_end_matches('…').len());
        shortened.pop();
        shortened.push('…');
    }
    shortened
}

/// Axis with round ends and steps.
struct Axis {
    /// Ticks from one end to the other.
    ticks: Vec<f64>,
    is_logarithmic: bool,
}

impl Axis {
    /// Creates an axis from `low` to `high`, which is larger, in about five steps of 1, 2 or 5
    /// times a power of ten.
    fn over(low: f64, high: f64) -> Self {
        let rough = (high - low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
        let step = factor.unwrap_or(10.0) * power;
        let (low, high) = ((low / step).floor(), (high / step).ceil());
        // At most 7: five steps, and the rounding of both ends.
        let count = (high - low).round() as usize;
        let ticks = (0..=count).map(|index| (low + index as f64) * step).collect();
        Self { ticks, is_logarithmic: false }
    }

    /// Creates a logarithmic axis from `low`, which is positive, to `high`, which is larger.
    fn of_magnitudes(low: f64, high: f64) -> Self {
        const MOST_TICKS: usize = 10;
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let within = |factors: &[f64]| {
            let all = powers
                .clone()
                .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
            let all: Vec<f64> = all.collect();
            let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
            let last = all.iter().position(|tick| *tick >= high).unwrap_or(all.len() - 1);
            all[first..=last].to_vec()
        };
        let fine = within(&[1.0, 2.0, 5.0]);
        let ticks = if fine.len() > MOST_TICKS { within(&[1.0]) } else { fine };
        Self { ticks, is_logarithmic: true }
    }

    /// Returns the position of `value` between the ends, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let at = |value: f64| if self.is_logarithmic { value.log10() } else { value };
        let (low, high) = (at(self.ticks[0]), at(self.ticks[self.ticks.len() - 1]));
        (at(value) - low) / (high - low)
    }
}

fn tick_text(tick: f64) -> String {
    if tick.fract().abs() < 1e-9 { format!("{tick:.0}") } else { format!("{tick:.1}") }
}

fn svg(id: &str, title: &str, description: &str, height: f64, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-text\">{}</desc>\n{body}</svg>\n",
        escaped(title),
        escaped(description),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(axis: &Axis) -> String {
        axis.ticks.iter().map(|tick| tick_text(*tick)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn axes_have_round_ends_and_steps() {
        let cases = [
            (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1"),
            (37.0, 62.0, "35 40 45 50 55 60 65"),
            (0.0, 8123.0, "0 2000 4000 6000 8000 10000"),
        ];
        for (low, high, expected) in cases {
            assert_eq!(texts(&Axis::over(low, high)), expected);
        }
        let cases = [
            (210.0, 4700.0, "200 500 1000 2000 5000"),
            (3.0, 2e5, "1 10 100 1000 10000 100000 1000000"),
        ];
        for (low, high, expected) in cases {
            assert_eq!(texts(&Axis::of_magnitudes(low, high)), expected);
        }
    }

    #[test]
    fn names_are_cut_where_there_is_no_room() {
        assert_eq!(shortened("26 qrmem-reflect-offline k=10"), "26 qrmem-reflect-offline k=10");
        let cut = shortened(&"千里".repeat(20));
        assert!(cut.ends_with("里…") || cut.ends_with("千…"), "{cut}");
    }

    proptest! {
        #[test]
        fn an_axis_covers_its_values_in_few_steps(low in 1e-3..1e6f64, width in 1e-3..1e9f64) {
            let high = low + width;
            for axis in [Axis::over(low, high), Axis::of_magnitudes(low, high)] {
                // Tolerance for the rounding of the ends to steps, in units of the axis' length.
                prop_assert!(axis.part(low) > -1e-6 && axis.part(high) < 1.0 + 1e-6);
                prop_assert!((2..=14).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            }
        }

        #[test]
        fn numbers_of_points_in_one_place_stand_beside_each_other(
            dot in (44.0..572.0f64, 16.0..300.0f64),
            count in 1..5_usize,
        ) {
            let places = number_places(&vec![dot; count], 44.0, 300.0);
            for (at, (x, y)) in places.iter().enumerate() {
                prop_assert!(*x >= 44.0 && x + NUMBER.0 <= WIDTH && *y <= 300.0);
                for (other_x, other_y) in &places[..at] {
                    // Tolerance for the rounding of sums.
                    let is_beside = (x - other_x).abs() > NUMBER.0 - 1e-9;
                    prop_assert!(is_beside || (y - other_y).abs() > NUMBER.1, "{:?}", places);
                }
            }
        }
    }
}
