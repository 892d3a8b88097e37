//! Loss curve: a line of JSON for each step, and a picture.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::unwritable;
use crate::Error;

const LINES: &str = "curve.jsonl";
const PICTURE: &str = "curve.svg";
/// Size of the picture, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 48.0;
/// Share of all steps over which the bold line averages the loss.
const SMOOTHED: f64 = 0.02;

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingStep {
    /// Number of the step, from 1.
    pub step: usize,
    /// Mean cross-entropy of the labels of the step's sequences, before the step changes the
    /// parameters, in nats.
    pub loss: f64,
    /// Learning rate.
    pub rate: f64,
    /// Norm of all gradients, before clipping.
    pub norm: f64,
    /// Number of tokens in the step's sequences.
    pub tokens: usize,
    /// Duration of the step.
    pub seconds: f64,
}

/// Loss curve of all steps so far.
#[derive(Debug)]
pub struct Curve {
    folder: PathBuf,
    lines: File,
    points: Vec<TrainingStep>,
}

impl Curve {
    /// Opens the curve in a folder up to `step`. Later points are discarded, because their steps
    /// are repeated.
    pub(super) fn open(folder: &Path, step: usize) -> Result<Self, Error> {
        let path = folder.join(LINES);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // A line that a crash cut short belongs to a step that is repeated.
        let points =
            text.lines().filter_map(|line| serde_json::from_str::<TrainingStep>(line).ok());
        let points: Vec<TrainingStep> = points.filter(|point| point.step <= step).collect();
        let lines = File::create(&path).map_err(|source| unwritable(LINES, source))?;
        let mut curve = Self { folder: folder.to_path_buf(), lines, points: Vec::new() };
        points.into_iter().try_for_each(|point| curve.add(point))?;
        Ok(curve)
    }

    /// Returns all points, in order.
    pub fn points(&self) -> &[TrainingStep] {
        &self.points
    }

    pub(super) fn add(&mut self, point: TrainingStep) -> Result<(), Error> {
        let line = serde_json::to_string(&point).map_err(|e| unwritable(LINES, e.into()))?;
        writeln!(self.lines, "{line}").map_err(|source| unwritable(LINES, source))?;
        self.points.push(point);
        Ok(())
    }

    pub(super) fn draw(&self) -> Result<(), Error> {
        let picture = self.folder.join(PICTURE);
        fs::write(picture, self.svg()).map_err(|source| unwritable(PICTURE, source))
    }

    /// Returns the picture as SVG.
    pub fn svg(&self) -> String {
        let losses: Vec<f64> = self.points.iter().map(|point| point.loss).collect();
        let steps: Vec<f64> = self.points.iter().map(|point| point.step as f64).collect();
        let within = (losses.len() as f64 * SMOOTHED).ceil() as usize;
        let smooth = smoothed(&losses, within);
        let axes = Axes {
            last: steps.last().copied().unwrap_or(1.0),
            low: losses.iter().copied().fold(f64::INFINITY, f64::min),
            high: losses.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        if !losses.is_empty() {
            axes.draw(&mut svg);
            axes.line(&mut svg, &steps, &losses, "#b8c7de", 1.0);
            axes.line(&mut svg, &steps, &smooth, "#1f4e9c", 2.0);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Returns for each number the mean of it and those before it, `within` numbers in all.
fn smoothed(numbers: &[f64], within: usize) -> Vec<f64> {
    let ends = 1..=numbers.len();
    let means = ends.map(|end| {
        let part = &numbers[end.saturating_sub(within.max(1))..end];
        part.iter().sum::<f64>() / part.len() as f64
    });
    means.collect()
}

struct Axes {
    /// Last step.
    last: f64,
    /// Lowest loss.
    low: f64,
    /// Highest loss.
    high: f64,
}

impl Axes {
    fn place(&self, step: f64, loss: f64) -> (f64, f64) {
        let (wide, tall) = (WIDTH - 2.0 * MARGIN, HEIGHT - 2.0 * MARGIN);
        let span = (self.high - self.low).max(1e-9);
        let x = MARGIN + wide * step / self.last.max(1.0);
        (x, MARGIN + tall * (self.high - loss) / span)
    }

    fn draw(&self, svg: &mut String) {
        let (left, bottom) = self.place(0.0, self.low);
        let (right, top) = self.place(self.last, self.high);
        let middle = (self.low + self.high) / 2.0;
        // Writing into a string cannot fail.
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#444\"/>"
        );
        for loss in [self.low, middle, self.high] {
            let (x, y) = self.place(0.0, loss);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{loss:.2}</text>",
                x - 6.0,
                y + 4.0
            );
        }
        for step in [0.0, self.last / 2.0, self.last] {
            let (x, y) = self.place(step, self.low);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{step:.0}</text>",
                y + 18.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{}\">loss (nats a token) by step</text>",
            top - 14.0
        );
    }

    fn line(&self, svg: &mut String, steps: &[f64], losses: &[f64], colour: &str, width: f64) {
        let points = steps.iter().zip(losses).map(|(step, loss)| {
            let (x, y) = self.place(*step, *loss);
            format!("{x:.1},{y:.1}")
        });
        let points: Vec<String> = points.collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            points.join(" ")
        );
    }
}
