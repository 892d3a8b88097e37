//! What was measured, as JSON, as a table and as a picture.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::measure::{AtRatio, Measured};

pub fn write(measured: &Measured, out: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(measured)?;
    let table = table(measured)?;
    fs::write(out.join("measured.json"), format!("{json}\n"))?;
    fs::write(out.join("measured.md"), &table)?;
    fs::write(out.join("measured.svg"), picture(measured)?)?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

fn table(measured: &Measured) -> anyhow::Result<String> {
    let mut table = String::from(
        "| context | slots | perplexity | nats saved a token | one number | of three numbers | digits |\n\
         |---|---|---|---|---|---|---|\n",
    );
    writeln!(table, "| none | 0 | {:.2} | | | | |", measured.perplexity_without)?;
    for at in &measured.by_ratio {
        let AtRatio { ratio, slots, perplexity, saved, recall_of_one, recall_of_three, digits } =
            at;
        let context = if *ratio == 0 { "as it is".to_owned() } else { format!("ratio {ratio}") };
        let percent = |mean: &crate::measure::Mean| {
            format!("{:.0} ± {:.0} %", 100.0 * mean.value, 100.0 * mean.margin)
        };
        writeln!(
            table,
            "| {context} | {slots} | {perplexity:.2} | {:.4} ± {:.4} | {} | {} | {} |",
            saved.value,
            saved.margin,
            percent(recall_of_one),
            percent(recall_of_three),
            percent(digits),
        )?;
    }
    Ok(table)
}

/// Perplexity by ratio beside that without a context, and recall below.
fn picture(measured: &Measured) -> anyhow::Result<String> {
    const LEFT: f64 = 70.0;
    const STEP: f64 = 110.0;
    const TALL: f64 = 140.0;
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 440\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"720\" height=\"440\" fill=\"white\"/>\n",
    );
    let all = measured.by_ratio.iter().map(|at| at.perplexity);
    let low = all.fold(measured.perplexity_without, f64::min);
    let high = measured.perplexity_without;
    let (bottom, top) = (low - 0.2 * (high - low), high + 0.1 * (high - low));
    let mut bars = vec![("none".to_owned(), measured.perplexity_without, None)];
    for at in &measured.by_ratio {
        let name =
            if at.ratio == 0 { "as it is".to_owned() } else { format!("ratio {}", at.ratio) };
        bars.push((name, at.perplexity, Some((at.recall_of_one.value, at.recall_of_three.value))));
    }
    writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"24\">perplexity of what follows a context that is …</text>"
    )?;
    writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"244\">numbers recalled, one planted (dark) and three</text>"
    )?;
    for (at, (name, perplexity, recall)) in bars.iter().enumerate() {
        let x = LEFT + at as f64 * STEP;
        let mut bar = |x: f64, base: f64, width: f64, share: f64, colour: &str| {
            let tall = (TALL * share).max(0.0);
            writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"{width}\" height=\"{tall:.1}\" fill=\"{colour}\"/>",
                base - tall
            )
        };
        bar(x, 190.0, 60.0, (perplexity - bottom) / (top - bottom), "#1f4e9c")?;
        if let Some((one, three)) = recall {
            bar(x, 400.0, 28.0, *one, "#1f4e9c")?;
            bar(x + 32.0, 400.0, 28.0, *three, "#b8c7de")?;
            writeln!(
                svg,
                "<text x=\"{x}\" y=\"416\">{:.0} %, {:.0} %</text>",
                100.0 * one,
                100.0 * three
            )?;
        }
        writeln!(svg, "<text x=\"{x}\" y=\"206\">{name}: {perplexity:.2}</text>")?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}
