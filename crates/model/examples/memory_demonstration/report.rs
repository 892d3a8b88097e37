//! Reports the measurements as JSON, as a table and as a picture.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::measure::{AtRatio, Mean, Measured, OfModel};
use crate::texts::MOST_FACTS;

pub fn write(measured: &Measured, out: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(measured)?;
    let mut table = format!(
        "| model | context | slots | perplexity | nats saved a token | by another's | owed to this | 1 fact | 1 of {MOST_FACTS} facts |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    rows("not trained", &measured.untrained, &mut table)?;
    rows("trained on texts", &measured.trained_on_texts, &mut table)?;
    rows("then tuned on recall", &measured.tuned_on_recall, &mut table)?;
    fs::write(out.join("measured.json"), format!("{json}\n"))?;
    fs::write(out.join("measured.md"), &table)?;
    fs::write(out.join("measured.svg"), picture(measured)?)?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

fn rows(name: &str, model: &OfModel, table: &mut String) -> anyhow::Result<()> {
    writeln!(table, "| {name} | none | 0 | {:.2} | | | | | |", model.perplexity_without)?;
    for at in &model.by_ratio {
        let AtRatio { slots, perplexity, recall_of_one, recall_of_several, .. } = at;
        let percent =
            |mean: &Mean| format!("{:.0} ± {:.0} %", 100.0 * mean.value, 100.0 * mean.margin);
        let nats = |mean: &Mean| format!("{:.4} ± {:.4}", mean.value, mean.margin);
        writeln!(
            table,
            "| | {} | {slots} | {perplexity:.2} | {} | {} | {} | {} | {} |",
            named(at.ratio),
            nats(&at.saved),
            nats(&at.saved_by_another),
            nats(&at.owed_to_this),
            percent(recall_of_one),
            percent(recall_of_several),
        )?;
    }
    Ok(())
}

fn named(ratio: usize) -> String {
    if ratio == 0 { "as it is".to_owned() } else { format!("ratio {ratio}") }
}

const LEFT: f64 = 40.0;
const STEP: f64 = 130.0;
const TALL: f64 = 140.0;
/// Colours of the models, in their order.
const COLOURS: [&str; 3] = ["#c9c9c9", "#8aa6d6", "#1f4e9c"];

/// Draws what contexts save, and recall below.
fn picture(measured: &Measured) -> anyhow::Result<String> {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 440\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"720\" height=\"440\" fill=\"white\"/>\n",
    );
    let models = [&measured.untrained, &measured.trained_on_texts, &measured.tuned_on_recall];
    let all = models.iter().flat_map(|model| &model.by_ratio);
    let most = all.map(|at| at.saved.value).fold(1e-9, f64::max);
    let title = "nats a token saved by a context of four windows (red: by another place's); \
         memory not trained, on texts, then on recall";
    let saved = Chart {
        base: 190.0,
        title,
        value: |at| at.saved.value,
        beside: |at| Some(at.saved_by_another.value),
        written: |value| format!("{value:.3}"),
        most,
    };
    saved.draw(models, &mut svg)?;
    let title = format!("facts recalled, 1 of {MOST_FACTS} asked for");
    let recalled = Chart {
        base: 400.0,
        title: &title,
        value: |at| at.recall_of_several.value,
        beside: |_| None,
        written: |value| format!("{:.0} %", 100.0 * value),
        most: 1.0,
    };
    recalled.draw(models, &mut svg)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Bar chart: for each ratio one bar of each model.
struct Chart<'a> {
    /// Distance of the base line from the top.
    base: f64,
    title: &'a str,
    value: fn(&AtRatio) -> f64,
    /// Value that a line over the bar compares it with.
    beside: fn(&AtRatio) -> Option<f64>,
    written: fn(f64) -> String,
    /// Value of the highest bar.
    most: f64,
}

impl Chart<'_> {
    fn draw(&self, models: [&OfModel; 3], svg: &mut String) -> anyhow::Result<()> {
        let Self { base, title, .. } = *self;
        writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{title}</text>", base - TALL - 24.0)?;
        for (model, (of, colour)) in models.iter().zip(COLOURS).enumerate() {
            for (place, at) in of.by_ratio.iter().enumerate() {
                let x = LEFT + place as f64 * STEP + model as f64 * 40.0;
                let value = (self.value)(at);
                let top = self.top(value);
                writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{top:.1}\" width=\"36\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
                     <text x=\"{x}\" y=\"{:.1}\">{}</text>",
                    base - top,
                    top - 4.0,
                    (self.written)(value),
                )?;
                if let Some(beside) = (self.beside)(at) {
                    let (right, top) = (x + 36.0, self.top(beside));
                    writeln!(
                        svg,
                        "<path d=\"M{x} {top:.1}H{right}\" stroke=\"#d1495b\" stroke-width=\"2\"/>"
                    )?;
                }
                if model == 0 {
                    let name = named(at.ratio);
                    writeln!(svg, "<text x=\"{x}\" y=\"{}\">{name}</text>", base + 16.0)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the position of a bar's upper end.
    fn top(&self, value: f64) -> f64 {
        self.base - (TALL * value / self.most).max(0.0)
    }
}
