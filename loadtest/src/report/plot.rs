//! Plots as SVG: lines over a number, and stacked bars.

use std::fmt::Write;

use clew_text::escaped;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 58.0;
/// Approximate number of grid lines in each direction.
const GRID: f64 = 6.0;
/// Colours that most people can distinguish (Okabe and Ito).
pub(super) const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Scale of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic, by powers of ten. Values that are not above 0 are left out.
    Logarithmic,
}

/// Line of a plot. An absent value interrupts it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(f64, Option<f64>)>,
}

/// Plot of lines.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub title: String,
    pub x_title: &'static str,
    pub scale: Scale,
    pub lines: Vec<Line>,
    /// Named places on the x axis: where phases begin.
    pub marks: Vec<(f64, String)>,
}

/// Bar of stacked parts.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub name: String,
    /// Lengths of the parts, in the order of the legend.
    pub parts: Vec<f64>,
}

/// Formats a number with about three significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100_000.0 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl Plot {
    /// Renders the plot as SVG. Returns an empty text if there is nothing to see.
    pub fn svg(&self) -> String {
        let seen = |(x, y): &(f64, Option<f64>)| {
            let y = y.filter(|y| y.is_finite() && (self.scale == Scale::Linear || *y > 0.0))?;
            x.is_finite().then_some((*x, y))
        };
        let points: Vec<(f64, f64)> =
            self.lines.iter().flat_map(|line| &line.points).filter_map(seen).collect();
        if points.is_empty() {
            return String::new();
        }
        let most_x = points.iter().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
        let (low, high, grid) = self.heights(&points);
        let place_x = |x: f64| LEFT + x / most_x * (WIDTH - LEFT - RIGHT);
        let share = |y: f64| match self.scale {
            Scale::Linear => (y - low) / (high - low),
            Scale::Logarithmic => (y / low).log10() / (high / low).log10(),
        };
        let place_y = |y: f64| HEIGHT - BOTTOM - share(y) * (HEIGHT - TOP - BOTTOM);
        let mut svg = opening(&self.title, HEIGHT);
        for y in grid {
            let (at, shown) = (place_y(y), number(y));
            horizontal(&mut svg, at);
            text(&mut svg, (LEFT - 6.0, at + 4.0), "end", &shown);
        }
        let step = round_step(most_x / GRID);
        for x in (0..).map(|number| f64::from(number) * step).take_while(|x| *x <= most_x) {
            text(&mut svg, (place_x(x), HEIGHT - BOTTOM + 16.0), "middle", &number(x));
        }
        for (x, name) in self.marks.iter().filter(|(x, _)| *x <= most_x) {
            let at = place_x(*x);
            let bottom = HEIGHT - BOTTOM;
            put(
                &mut svg,
                format_args!(
                    "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" class=\"mark\"/>"
                ),
            );
            text(&mut svg, (at + 3.0, TOP + 10.0), "start", name);
        }
        text(&mut svg, (WIDTH - RIGHT, HEIGHT - BOTTOM + 32.0), "end", self.x_title);
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            for run in line.points.split(|point| seen(point).is_none()) {
                let places: Vec<String> = run
                    .iter()
                    .filter_map(seen)
                    .map(|(x, y)| format!("{:.1},{:.1}", place_x(x), place_y(y)))
                    .collect();
                // A single value between two absent ones would be a line without length, so it is
                // drawn as a dot.
                match places.as_slice() {
                    [] => {}
                    [only] => {
                        let (x, y) = only.split_once(',').unwrap_or((only, "0"));
                        put(
                            &mut svg,
                            format_args!(
                                "<circle cx=\"{x}\" cy=\"{y}\" r=\"2\" fill=\"{colour}\"/>"
                            ),
                        );
                    }
                    _ => put(
                        &mut svg,
                        format_args!(
                            "<polyline points=\"{}\" stroke=\"{colour}\" class=\"line\"/>",
                            places.join(" ")
                        ),
                    ),
                }
            }
        }
        legend(&mut svg, self.lines.iter().map(|line| line.name.as_str()), HEIGHT - 12.0);
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the lowest and the highest value of the axis, and the places of grid lines.
    fn heights(&self, points: &[(f64, f64)]) -> (f64, f64, Vec<f64>) {
        let ys = || points.iter().map(|(_, y)| *y);
        let most = ys().fold(f64::MIN_POSITIVE, f64::max);
        match self.scale {
            Scale::Linear => {
                let step = round_step(most / GRID);
                let steps = (most / step).ceil().max(1.0);
                let grid = (0..=steps as u32).map(|number| f64::from(number) * step).collect();
                (0.0, steps * step, grid)
            }
            Scale::Logarithmic => {
                let least = ys().fold(f64::INFINITY, f64::min).log10().floor();
                let most = most.log10().ceil().max(least + 1.0);
                let powers = least as i32..=most as i32;
                let grid = powers.map(|power| 10.0_f64.powi(power)).collect();
                (10.0_f64.powf(least), 10.0_f64.powf(most), grid)
            }
        }
    }
}

/// Renders bars of stacked parts, one below the other, as SVG.
pub(super) fn bars_svg(title: &str, unit: &str, names: &[&str], bars: &[Bar]) -> String {
    const ROW: f64 = 22.0;
    const NAMES: f64 = 210.0;
    let sum = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let most = bars.iter().map(sum).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let height = TOP + ROW * bars.len() as f64 + 40.0;
    let mut svg = opening(title, height);
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        text(&mut svg, (NAMES - 6.0, y + 14.0), "end", &bar.name);
        let mut x = NAMES;
        for (part, colour) in bar.parts.iter().zip(COLOURS.iter().cycle()) {
            let width = part / most * (WIDTH - NAMES - 90.0);
            put(
                &mut svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                    y + 2.0,
                    ROW - 5.0
                ),
            );
            x += width;
        }
        text(&mut svg, (x + 6.0, y + 14.0), "start", &format!("{} {unit}", number(sum(bar))));
    }
    legend(&mut svg, names.iter().copied(), height - 12.0);
    svg.push_str("</svg>\n");
    svg
}

/// Returns 1, 2 or 5 times a power of ten: the smallest such number that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10.0_f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

fn opening(title: &str, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{}</title>\n",
        escaped(title)
    );
    put(
        &mut svg,
        format_args!("<text x=\"{LEFT}\" y=\"18\" class=\"heading\">{}</text>", escaped(title)),
    );
    svg
}

fn horizontal(svg: &mut String, y: f64) {
    let right = WIDTH - RIGHT;
    put(
        svg,
        format_args!(
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" class=\"grid\"/>"
        ),
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    put(
        svg,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"),
    );
}

fn legend<'a>(svg: &mut String, names: impl Iterator<Item = &'a str>, y: f64) {
    let mut x = LEFT;
    for (name, colour) in names.zip(COLOURS.iter().cycle()) {
        put(
            svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
                y - 9.0
            ),
        );
        text(svg, (x + 14.0, y), "start", name);
        // Approximate width of a letter at this size.
        x += 30.0 + 6.5 * name.chars().count() as f64;
    }
}

fn put(svg: &mut String, part: std::fmt::Arguments<'_>) {
    writeln!(svg, "{part}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plot(scale: Scale, points: Vec<(f64, Option<f64>)>) -> Plot {
        let lines = vec![Line { name: "a < b & \"c\"".to_owned(), points }];
        let marks = vec![(0.0, "begin".to_owned())];
        Plot { title: "<title>".to_owned(), x_title: "seconds", scale, lines, marks }
    }

    proptest! {
        #[test]
        fn every_place_lies_within_the_plot(
            points in proptest::collection::vec((0.0_f64..1e5, proptest::option::of(0.0_f64..1e7)), 1..40),
            is_logarithmic: bool,
        ) {
            let scale = if is_logarithmic { Scale::Logarithmic } else { Scale::Linear };
            let svg = plot(scale, points).svg();
            for places in svg.split("points=\"").skip(1) {
                let places = places.split('"').next().unwrap();
                for place in places.split(' ') {
                    let (x, y) = place.split_once(',').unwrap();
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    prop_assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{}", place);
                }
            }
        }
    }

    #[test]
    fn an_absent_value_interrupts_a_line() {
        let points = [Some(1.0), Some(2.0), None, Some(3.0), Some(4.0), None, Some(5.0)];
        let points = (0..).map(f64::from).zip(points).collect();
        let svg = plot(Scale::Linear, points).svg();
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 1));
    }

    #[test]
    fn nothing_makes_no_plot() {
        assert!(plot(Scale::Logarithmic, vec![(1.0, Some(0.0)), (2.0, None)]).svg().is_empty());
        assert!(bars_svg("a", "ms", &["b"], &[]).is_empty());
    }

    #[test]
    fn steps_of_the_grid_are_round() {
        for (least, expected) in [(0.9, 1.0), (1.1, 2.0), (3.0, 5.0), (700.0, 1000.0)] {
            assert!((round_step(least) - expected).abs() < 1e-9, "{least}");
        }
    }
}
