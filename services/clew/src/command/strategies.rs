//! Command `clew strategies`.

use clew_strategy::STRATEGIES;
use serde_json::{Value, json};

use crate::output::Output;

/// Lists the strategies of answering. Needs neither a server nor data.
pub fn run(output: &Output) -> anyhow::Result<()> {
    let listed = STRATEGIES.iter().map(|listed| {
        json!({
            "name": listed.strategy.name(),
            "does": listed.does,
            "needs": listed.needs,
            "cost": listed.cost,
        })
    });
    let document = json!({ "strategies": listed.collect::<Vec<Value>>() });
    output.print(&document, |_| table())
}

fn table() -> String {
    let mut text = format!("{:<22} {:<7} {:<26} {}\n", "name", "needs", "cost", "does");
    for listed in &STRATEGIES {
        let (name, needs) = (listed.strategy.name(), listed.needs.as_str());
        text.push_str(&format!("{name:<22} {needs:<7} {:<26} {}\n", listed.cost, listed.does));
    }
    text
}
