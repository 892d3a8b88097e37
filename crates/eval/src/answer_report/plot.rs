//! Plots as SVG inside of a page. Colours are classes of the page's style; what a colour says, a number
//! or a text beside it says too.

use super::Estimate;
use super::html::{escaped, series};
use super::table::{amount, interval, per_cent};

const WIDTH: f64 = 720.0;
const FONT: f64 = 12.0;

/// A run as a point.
pub(super) struct Point {
    pub label: String,
    /// At least 0.
    pub x: f64,
    pub y: Estimate,
}

/// Points with 95 % intervals, numbered from 1 in their order: quality in per cent upwards, cost to
/// the right.
pub(super) fn scatter(title: &str, x_name: &str, points: &[Point]) -> String {
    let (left, right, top, bottom) = (56.0, WIDTH - 24.0, 16.0, 300.0);
    let most = points.iter().map(|point| point.x).fold(0.0, f64::max);
    let low = points.iter().map(|point| point.y.ci95[0]).fold(1.0, f64::min);
    let high = points.iter().map(|point| point.y.ci95[1]).fold(0.0, f64::max);
    let x_axis = Axis::over(0.0, most.max(1.0));
    let y_axis = Axis::over(100.0 * low, (100.0 * high).max(100.0 * low + 1.0));
    let x_of = |x: f64| left + (right - left) * x_axis.part(x);
    let y_of = |fraction: f64| bottom - (bottom - top) * y_axis.part(100.0 * fraction);
    let mut body = String::new();
    for tick in y_axis.ticks() {
        let y = y_of(tick / 100.0);
        body += &format!(
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            left - 8.0,
            y + 4.0,
            tick_text(tick),
        );
    }
    for tick in x_axis.ticks() {
        let x = x_of(tick);
        let y = bottom + 18.0;
        body +=
            &format!("<text class=\"middle\" x=\"{x:.1}\" y=\"{y}\">{}</text>\n", tick_text(tick));
    }
    body += &format!(
        "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        f64::midpoint(left, right),
        bottom + 38.0,
        escaped(x_name),
    );
    for (index, point) in points.iter().enumerate() {
        let (x, y) = (x_of(point.x), y_of(point.y.mean));
        let [y_low, y_high] = point.y.ci95.map(y_of);
        body += &format!(
            "<g class=\"{}\"><title>{}: {} % ({}) at {}</title>\
             <line class=\"whisker\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y_low:.1}\" y2=\"{y_high:.1}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
            series(index),
            escaped(&point.label),
            per_cent(point.y.mean),
            interval(&point.y),
            amount(point.x),
            x + 9.0,
            y - 6.0,
            index + 1,
        );
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

/// A bar of each run for each group; `None` where the run has no such question.
pub(super) struct Bars<'a> {
    pub group: &'a str,
    pub runs: Vec<Option<Estimate>>,
}

/// Horizontal bars from 0 to 100 per cent with 95 % intervals, numbered by run from 1.
pub(super) fn bars(title: &str, groups: &[Bars<'_>]) -> String {
    const BAR: f64 = 14.0;
    const GAP: f64 = 12.0;
    let names: Vec<String> = groups.iter().map(|bars| shortened(bars.group)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let (left, right) = ((longest as f64 * 7.0 + 36.0).max(96.0), WIDTH - 110.0);
    let x_of = |fraction: f64| left + (right - left) * fraction;
    let rows: usize = groups.iter().map(|bars| bars.runs.len()).sum();
    let bottom = 24.0 + rows as f64 * (BAR + 2.0) + groups.len() as f64 * GAP;
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
    for (bars, name) in groups.iter().zip(&names) {
        let middle = y + bars.runs.len() as f64 * (BAR + 2.0) / 2.0 + 3.0;
        body += &format!(
            "<text class=\"end\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>\n",
            left - 28.0,
            escaped(name),
        );
        for (index, estimate) in bars.runs.iter().enumerate() {
            let text_y = y + 11.0;
            let number = index + 1;
            body += &format!(
                "<text class=\"end faint\" x=\"{:.1}\" y=\"{text_y:.1}\">{number}</text>\n",
                left - 8.0,
            );
            if let Some(estimate) = estimate {
                let value = format!("{} ({})", per_cent(estimate.mean), interval(estimate));
                let [low, high] = estimate.ci95.map(x_of);
                body += &format!(
                    "<g class=\"{}\"><title>{}, run {number}: {value}, n = {}</title>\
                     <rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
                     <line class=\"whisker over\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                     <text x=\"{:.1}\" y=\"{text_y:.1}\">{value}</text></g>\n",
                    series(index),
                    escaped(bars.group),
                    estimate.n,
                    (x_of(estimate.mean) - left).max(1.0),
                    y + BAR / 2.0,
                    y + BAR / 2.0,
                    right + 8.0,
                );
                said += &format!("{}, run {number}: {value}. ", bars.group);
            }
            y += BAR + 2.0;
        }
        y += GAP;
    }
    svg("bars", title, &said, bottom, &body)
}

/// `name` as far as there is room for it beside the bars.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 36;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// A range with round ends and steps.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Covers `low` to `high`, which is larger, in about five steps of 1, 2 or 5 times a power of ten.
    fn over(low: f64, high: f64) -> Self {
        let rough = (high - low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
        let step = factor.unwrap_or(10.0) * power;
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// Where `value` lies between the ends, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        // At most 7: five steps and the rounding of both ends.
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|index| self.low + index as f64 * self.step)
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

    #[test]
    fn axes_have_round_ends_and_steps() {
        let cases = [
            (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1"),
            (37.0, 62.0, "35 40 45 50 55 60 65"),
            (0.0, 8123.0, "0 2000 4000 6000 8000 10000"),
        ];
        for (low, high, expected) in cases {
            let ticks: Vec<_> = Axis::over(low, high).ticks().map(tick_text).collect();
            assert_eq!(ticks.join(" "), expected);
        }
    }

    proptest! {
        #[test]
        fn an_axis_covers_its_values_in_few_steps(low in 0.0..1e6f64, width in 1e-3..1e9f64) {
            let axis = Axis::over(low, low + width);
            // Rounding of the ends to steps, in units of the axis' length.
            prop_assert!(axis.part(low) > -1e-6 && axis.part(low + width) < 1.0 + 1e-6);
            prop_assert!((2..=8).contains(&axis.ticks().count()));
        }
    }
}
