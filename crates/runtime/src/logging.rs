//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error. `filter` is a level or directives such as
/// `info,clew_retriever=debug`; one that does not parse falls back to `info`. A second call does
/// nothing, so that tests may start several nodes.
pub fn start(filter: &str, format: LogFormat) {
    // The storage engine logs every file, and warns of each store it is given; whoever wants that names it.
    let filter = match filter.contains("lance") {
        true => filter.to_owned(),
        false => format!("{filter},lance=warn,lance_index=warn,lance_io::object_store=error"),
    };
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().finish().try_init(),
    };
    drop(started);
}
