//! Command `clew list`.

use clap::{Args, ValueEnum};
use clew_core::{CorpusName, Filter};
use clew_proto::convert::query::filter_to_wire;
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};

use crate::args::filter::FilterArgs;
use crate::args::global::GlobalArgs;
use crate::command::status::{state_document, state_line};
use crate::connection::Connection;
use crate::output::{self, Output};

/// Maximum number of documents in one request.
const PAGE: u32 = 200;

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// List only documents whose ids begin with this.
    #[arg(long, value_name = "ID", default_value = "")]
    pub prefix: String,
    /// List only documents at this stage of indexing.
    #[arg(long, value_enum)]
    pub stage: Option<StageChoice>,
    /// Maximum number of documents.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    /// Show titles and attributes.
    #[arg(long)]
    pub attributes: bool,
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Stages of indexing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StageChoice {
    /// Waits to be indexed.
    Pending,
    /// Can be found.
    Indexed,
    /// Set aside after repeated errors.
    Failed,
}

impl From<StageChoice> for wire::DocumentStage {
    fn from(stage: StageChoice) -> Self {
        match stage {
            StageChoice::Pending => Self::Pending,
            StageChoice::Indexed => Self::Indexed,
            StageChoice::Failed => Self::Failed,
        }
    }
}

/// Lists documents with their states.
pub async fn run(global: &GlobalArgs, arguments: ListArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = list(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn list(connection: &Connection, arguments: ListArgs, output: &Output) -> anyhow::Result<()> {
    let stage = arguments.stage.map_or(wire::DocumentStage::Unspecified, Into::into);
    let filter = filter_to_wire(Filter::from(arguments.filters));
    let most = arguments.limit as usize;
    let (mut listed, mut page_token) = (Vec::new(), String::new());
    let has_more = loop {
        // One more than is shown tells whether there are others.
        let lacking = u32::try_from(most + 1 - listed.len()).unwrap_or(PAGE);
        let request = wire::ListDocumentsRequest {
            corpus: arguments.corpus.to_string(),
            stage: stage.into(),
            page_size: lacking.min(PAGE),
            page_token,
            filter: Some(filter.clone()),
            id_prefix: arguments.prefix.clone(),
            with_attributes: arguments.attributes,
        };
        let page = connection.client.documents_page(request).await?;
        listed.extend(page.documents);
        page_token = page.next_page_token;
        if listed.len() > most || page_token.is_empty() {
            break listed.len() > most;
        }
    };
    listed.truncate(most);
    let document = |state: &wire::DocumentState| {
        let mut document = state_document(state);
        if arguments.attributes {
            document["title"] = state.title.clone().into();
            document["attributes"] = output::attributes(&state.attributes);
        }
        document
    };
    let documents: Vec<Value> = listed.iter().map(document).collect();
    output.print(&json!({ "documents": documents, "more": has_more }), |_| {
        let mut text = String::new();
        for state in &listed {
            text.push_str(&format!("{}\n", state_line(state)));
            if arguments.attributes {
                text.push_str(&output::attribute_lines(&state.title, &state.attributes));
            }
        }
        match (listed.is_empty(), has_more) {
            (true, _) => text.push_str("no document\n"),
            (false, true) => text.push_str("there are more; see --limit\n"),
            (false, false) => {}
        }
        text
    })
}
