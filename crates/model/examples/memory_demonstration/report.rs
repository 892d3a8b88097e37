//! What was measured, as JSON, as a table and as a picture.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::measure::{AtRatio, Mean, Measured, OfModel};
use crate::texts::MOST_FACTS;

pub fn write(measured: &Measured, out: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(measured)?;
    let mut table = format!(
        "| model | context | slots | perplexity | nats saved a token | 1 fact | 1 of {MOST_FACTS} facts |\n\
         |---|---|---|---|---|---|---|\n",
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
    writeln!(table, "| {name} | none | 0 | {:.2} | | | |", model.perplexity_without)?;
    for at in &model.by_ratio {
        let AtRatio { slots, perplexity, saved, recall_of_one, recall_of_several, .. } = at;
        let percent =
            |mean: &Mean| format!("{:.0} ± {:.0} %", 100.0 * mean.value, 100.0 * mean.margin);
        writeln!(
            table,
            "| | {} | {slots} | {perplexity:.2} | {:.4} ± {:.4} | {} | {} |",
            named(at.ratio),
            saved.value,
            saved.margin,
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
/// Of the models, one after the other.
const COLOURS: [&str; 3] = ["#c9c9c9", "#8aa6d6", "#1f4e9c"];

/// What contexts save, and recall below.
fn picture(measured: &Measured) -> anyhow::Result<String> {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 440\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"720\" height=\"440\" fill=\"white\"/>\n",
    );
    let models = [&measured.untrained, &measured.trained_on_texts, &measured.tuned_on_recall];
    let all = models.iter().flat_map(|model| &model.by_ratio);
    let most = all.map(|at| at.saved.value).fold(1e-9, f64::max);
    let title = "nats a token that a context of four windows saves: not trained (grey), trained on texts, then on recall";
    chart(
        &mut svg,
        190.0,
        title,
        models,
        |at| at.saved,
        |mean| format!("{:.3}", mean.value),
        most,
    )?;
    let title = format!("facts recalled, 1 of {MOST_FACTS} asked for");
    let recalled = |mean: &Mean| format!("{:.0} %", 100.0 * mean.value);
    chart(&mut svg, 400.0, &title, models, |at| at.recall_of_several, recalled, 1.0)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Bars on a line at the height `base`, for each ratio one of each model; a value of `most` is the highest.
fn chart(
    svg: &mut String,
    base: f64,
    title: &str,
    models: [&OfModel; 3],
    value: impl Fn(&AtRatio) -> Mean,
    written: impl Fn(&Mean) -> String,
    most: f64,
) -> anyhow::Result<()> {
    writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{title}</text>", base - TALL - 24.0)?;
    for (model, (of, colour)) in models.iter().zip(COLOURS).enumerate() {
        for (place, at) in of.by_ratio.iter().enumerate() {
            let x = LEFT + place as f64 * STEP + model as f64 * 40.0;
            let mean = value(at);
            let tall = (TALL * mean.value / most).max(0.0);
            writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"36\" height=\"{tall:.1}\" fill=\"{colour}\"/>\n\
                 <text x=\"{x}\" y=\"{:.1}\">{}</text>",
                base - tall,
                base - tall - 4.0,
                written(&mean),
            )?;
            if model == 0 {
                let name = named(at.ratio);
                writeln!(svg, "<text x=\"{x}\" y=\"{}\">{name}</text>", base + 16.0)?;
            }
        }
    }
    Ok(())
}
