//! Command `clew outline`: shows what a graph builder reads out of texts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use clew_core::{
    Document, EntityKind, Extraction, ExtractionTask, GraphBuilder, Span, Summary, SummaryLevel,
    SummaryTask,
};
use clew_formats::{FileFormat, Naming, Options};
use clew_graph_builder::ExtractiveGraphBuilder;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::output::{Output, one_line};

/// Arguments of `outline`.
#[derive(Debug, Args)]
pub struct OutlineArgs {
    /// Files, folders, globs, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Format of standard input.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub stdin_format: FileFormat,
    /// Maximum number of bytes of the summary, 1 to 16384.
    #[arg(long, default_value_t = 600, value_name = "BYTES")]
    pub summary_bytes: usize,
    /// Question in view of which the text is read; what it asks about counts as an entity.
    #[arg(long, default_value = "")]
    pub question: String,
    /// Number of entities, and of relations, that are shown of each text; JSON has all.
    #[arg(short, default_value_t = 12)]
    pub k: usize,
}

/// Bytes of a passage: about the 600 tokens of QRMeM's static segments (section 2.1). MemWalker's
/// leaves are of the same order.
const PASSAGE_BYTES: usize = 3000;
/// Number of summaries that are compressed into one, as MemWalker groups them (section 3).
const MAX_CHILDREN: usize = 8;
/// Bytes of each summary below the root.
const NODE_BYTES: usize = 800;
/// Maximum time for one text.
const PATIENCE: Duration = Duration::from_secs(600);

/// Reads texts and prints what a graph builder finds in them.
pub async fn run(
    global: &GlobalArgs,
    arguments: OutlineArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let builder: Box<dyn GraphBuilder> = match &global.endpoint {
        Some(endpoint) => Box::new(global.connect(endpoint, PATIENCE).await?),
        // The extractive builder needs neither a data directory nor a model.
        None => Box::new(ExtractiveGraphBuilder::new(
            &ClewConfig::load(global, None)?.roles.graph_builder,
        )),
    };
    let (paths, format) = (arguments.paths.clone(), arguments.stdin_format);
    let read = tokio::task::spawn_blocking(move || read(&paths, format));
    let (documents, problems) = read.await.context("reading files panicked")?;
    let mut outlines = Vec::new();
    for document in documents {
        let id = document.id.clone();
        let read = Box::pin(read_out(builder.as_ref(), document, &arguments)).await;
        outlines.push(read.with_context(|| format!("`{id}` was not read"))?);
    }
    let json = json!({
        "documents": outlines.iter().map(OutlineOf::as_json).collect::<Vec<_>>(),
        "unreadable": problems,
    });
    output.print(&json, |_| {
        outlines.iter().map(|outline| outline.as_text(arguments.k)).collect::<Vec<_>>().join("\n")
    })?;
    match problems.len() {
        0 => Ok(()),
        number => bail!("{number} texts were not read; the others were: {}", problems.join("; ")),
    }
}

fn read(paths: &[String], standard_input: FileFormat) -> (Vec<Document>, Vec<String>) {
    let discovery = clew_formats::discover(paths, &Naming::as_given(), standard_input);
    let mut problems: Vec<String> = discovery.problems.iter().map(ToString::to_string).collect();
    let mut documents = Vec::new();
    for found in discovery.files {
        for document in clew_formats::read(found.source, found.format, &Options::default()) {
            match document {
                Ok(document) => documents.push(document),
                Err(problem) => problems.push(problem.to_string()),
            }
        }
    }
    (documents, problems)
}

/// Outline of one text.
struct OutlineOf {
    document: Document,
    summary: Summary,
    /// Number of summaries on each level below the root.
    levels: Vec<usize>,
    entities: Vec<Named>,
    relations: Vec<Related>,
    key_phrases: Vec<String>,
}

/// Entity of a whole text.
struct Named {
    name: String,
    kind: EntityKind,
    mentions: Vec<Span>,
}

/// Relation of a whole text.
struct Related {
    head: String,
    text: String,
    tail: String,
    evidence: Span,
}

async fn read_out(
    builder: &dyn GraphBuilder,
    document: Document,
    arguments: &OutlineArgs,
) -> anyhow::Result<OutlineOf> {
    let deadline = Instant::now() + PATIENCE;
    let passages = clew_text::passages(&document.text, PASSAGE_BYTES);
    let texts: Vec<String> =
        passages.iter().filter_map(|span| span.of(&document.text)).map(str::to_owned).collect();
    let (summary, levels) =
        summarise(builder, texts.clone(), arguments.summary_bytes, deadline).await?;
    let tasks = texts.into_iter().map(|text| ExtractionTask {
        text,
        background: summary.text.clone(),
        question: arguments.question.clone(),
        speaker: String::new(),
    });
    let found = builder.extract(tasks.collect(), deadline).await?;
    let key_phrases = key_phrases(&found);
    let (entities, relations) = united(&passages, found);
    Ok(OutlineOf { document, summary, levels, entities, relations, key_phrases })
}

/// Returns the root of a summary tree over `texts`, and the number of summaries on each level below
/// it.
async fn summarise(
    builder: &dyn GraphBuilder,
    mut texts: Vec<String>,
    max_bytes: usize,
    deadline: Instant,
) -> anyhow::Result<(Summary, Vec<usize>)> {
    let mut levels = Vec::new();
    let (mut level, mut children) = (SummaryLevel::Leaf, 1);
    while !texts.is_empty() {
        let is_root = texts.len() <= children;
        let max_bytes = if is_root { max_bytes } else { NODE_BYTES };
        let groups = texts.chunks(children);
        let tasks: Vec<SummaryTask> =
            groups.map(|parts| SummaryTask { level, parts: parts.to_vec(), max_bytes }).collect();
        let mut summaries = builder.summarise(tasks, deadline).await?;
        if is_root {
            return Ok((summaries.pop().unwrap_or_default(), levels));
        }
        levels.push(summaries.len());
        texts = summaries.into_iter().map(|summary| summary.text).collect();
        (level, children) = (SummaryLevel::Inner, MAX_CHILDREN);
    }
    Ok((Summary::default(), levels))
}

/// Merges the entities of all passages by name and collects the relations, the most mentioned
/// first.
fn united(passages: &[Span], found: Vec<Extraction>) -> (Vec<Named>, Vec<Related>) {
    let mut entities: Vec<Named> = Vec::new();
    let mut of_name: HashMap<String, usize> = HashMap::new();
    let mut relations = Vec::new();
    for (passage, extraction) in passages.iter().zip(found) {
        let name = |index: usize| {
            extraction.entities.get(index).map(|entity| entity.name.clone()).unwrap_or_default()
        };
        relations.extend(extraction.relations.iter().map(|relation| Related {
            head: name(relation.head),
            text: relation.text.clone(),
            tail: name(relation.tail),
            evidence: relation.evidence.shifted(passage.start),
        }));
        for entity in extraction.entities {
            let index = *of_name.entry(entity.name.to_lowercase()).or_insert(entities.len());
            if index == entities.len() {
                let (name, kind, mentions) = (entity.name, entity.kind, Vec::new());
                entities.push(Named { name, kind, mentions });
            }
            let known = &mut entities[index];
            if known.kind == EntityKind::Other {
                known.kind = entity.kind;
            }
            known.mentions.extend(entity.mentions.iter().map(|span| span.shifted(passage.start)));
        }
    }
    let mentions: HashMap<String, usize> =
        entities.iter().map(|entity| (entity.name.to_lowercase(), entity.mentions.len())).collect();
    let known = |name: &String| mentions.get(&name.to_lowercase()).copied().unwrap_or_default();
    // The sort is stable, so equals stay in the order of the text.
    entities.sort_by_key(|entity| usize::MAX - entity.mentions.len());
    relations.sort_by_key(|relation: &Related| {
        usize::MAX - known(&relation.head).min(known(&relation.tail))
    });
    (entities, relations)
}

/// Returns the key phrases of all passages: those of most passages first, then by their best rank.
fn key_phrases(found: &[Extraction]) -> Vec<String> {
    let mut ranked: Vec<(String, usize, usize)> = Vec::new();
    let mut of_phrase: HashMap<String, usize> = HashMap::new();
    for extraction in found {
        for (rank, phrase) in extraction.key_phrases.iter().enumerate() {
            let index = *of_phrase.entry(phrase.to_lowercase()).or_insert(ranked.len());
            if index == ranked.len() {
                ranked.push((phrase.clone(), 0, rank));
            }
            ranked[index].1 += 1;
            ranked[index].2 = ranked[index].2.min(rank);
        }
    }
    ranked.sort_by_key(|(_, passages, rank)| (usize::MAX - passages, *rank));
    ranked.into_iter().map(|(phrase, ..)| phrase).collect()
}

impl OutlineOf {
    fn as_json(&self) -> Value {
        let span = |span: &Span| json!({ "start": span.start, "end": span.end });
        let entities = self.entities.iter().map(|entity| {
            json!({
                "name": entity.name,
                "kind": entity.kind.as_str(),
                "mentions": entity.mentions.iter().map(span).collect::<Vec<_>>(),
            })
        });
        let relations = self.relations.iter().map(|relation| {
            json!({
                "head": relation.head,
                "text": relation.text,
                "tail": relation.tail,
                "evidence": span(&relation.evidence),
            })
        });
        json!({
            "document_id": self.document.id.as_str(),
            "summary": self.summary.text,
            "summaries_below": self.levels,
            "entities": entities.collect::<Vec<_>>(),
            "relations": relations.collect::<Vec<_>>(),
            "key_phrases": self.key_phrases,
        })
    }

    fn as_text(&self, most: usize) -> String {
        let mut text =
            format!("{}\n  {}\n", self.document.id, one_line(&self.summary.text, 20_000));
        if !self.levels.is_empty() {
            let levels: Vec<String> = self.levels.iter().map(ToString::to_string).collect();
            text.push_str(&format!(
                "  (a tree of {} summaries and its root)\n",
                levels.join(" + ")
            ));
        }
        let phrases: Vec<&str> = self.key_phrases.iter().take(most).map(String::as_str).collect();
        text.push_str(&format!("key phrases: {}\n", phrases.join(", ")));
        text.push_str(&format!("{} entities\n", self.entities.len()));
        for entity in self.entities.iter().take(most) {
            let (name, kind, count) = (&entity.name, entity.kind.as_str(), entity.mentions.len());
            text.push_str(&format!("  {name} ({kind}, {count}×)\n"));
        }
        text.push_str(&format!("{} relations\n", self.relations.len()));
        for relation in self.relations.iter().take(most) {
            let Related { head, text: words, tail, .. } = relation;
            text.push_str(&format!("  {head} — {words} — {tail}\n"));
        }
        text
    }
}
