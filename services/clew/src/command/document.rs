//! Command `clew document`.

use clap::{Args, Subcommand};
use clew_core::{CorpusName, DocumentId};
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{Output, one_line};

/// Arguments of `document`.
#[derive(Debug, Args)]
pub struct DocumentArgs {
    #[command(subcommand)]
    pub action: DocumentAction,
}

/// Views of a document.
#[derive(Debug, Subcommand)]
pub enum DocumentAction {
    /// List the chunks that a document was cut into, as searches find them.
    Chunks {
        /// Name of the corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// Id of the document.
        document: DocumentId,
        /// Also show the text of each chunk, and the text that was embedded for it.
        #[arg(long)]
        texts: bool,
    },
}

/// Number of chunks to ask for at once.
const PAGE: u32 = 1000;

/// Shows a document.
pub async fn run(
    global: &GlobalArgs,
    arguments: DocumentArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let DocumentAction::Chunks { corpus, document, texts } = arguments.action;
    let asked = wire::ListChunksRequest {
        corpus: corpus.to_string(),
        document_id: document.to_string(),
        with_texts: texts,
        page_size: PAGE,
        page_token: String::new(),
    };
    let listed = chunks(&connection, asked).await;
    connection.close().await?;
    let (version, chunks) = listed?;
    let listed: Vec<Value> = chunks.iter().map(|chunk| as_json(chunk, texts)).collect();
    let shown = json!({ "document_id": document, "version": version, "chunks": listed });
    output.print(&shown, |_| match chunks.is_empty() {
        true => "searches find nothing of this document yet\n".to_owned(),
        false => chunks.iter().map(line).collect(),
    })
}

/// Returns the version of a document that searches find, with all its chunks.
async fn chunks(
    connection: &Connection,
    mut asked: wire::ListChunksRequest,
) -> anyhow::Result<(u64, Vec<wire::DocumentChunk>)> {
    let mut all = Vec::new();
    loop {
        let page = connection.client.chunks_page(asked.clone()).await?;
        all.extend(page.chunks);
        if page.next_page_token.is_empty() {
            return Ok((page.version, all));
        }
        asked.page_token = page.next_page_token;
    }
}

fn kind(chunk: &wire::DocumentChunk) -> String {
    chunk.kind().as_str_name().trim_start_matches("CHUNK_KIND_").to_lowercase()
}

fn as_json(chunk: &wire::DocumentChunk, with_texts: bool) -> Value {
    let mut shown = json!({
        "chunk_id": chunk.chunk_id,
        "ordinal": chunk.ordinal,
        "kind": kind(chunk),
        "span": [chunk.start, chunk.end],
        "tokens": chunk.tokens,
    });
    if with_texts {
        shown["text"] = json!(chunk.text);
        shown["key_text"] = json!(chunk.key_text);
    }
    shown
}

fn line(chunk: &wire::DocumentChunk) -> String {
    let wire::DocumentChunk { ordinal, start, end, tokens, chunk_id, key_text, .. } = chunk;
    let kind = kind(chunk);
    let mut line = format!("{ordinal:>5} {kind:<9} {start}..{end} {tokens} tokens {chunk_id}\n");
    if !key_text.is_empty() {
        line.push_str(&format!("      {}\n", one_line(key_text, 160)));
    }
    line
}
