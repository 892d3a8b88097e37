//! The tree of a corpus, or of a document: summaries from the top, opened level by level, down to
//! the bytes that they summarise.
//!
//! The address names the nodes that are open, one in the other. A page asks for the nodes beside
//! these alone, so its cost grows with the depth of the tree and not with the corpus.

use clew_client::name_of;
use clew_core::{CorpusName, Error};
use clew_proto::from_status;
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::memory::v1::node_id::Node;
use clew_proto::memory::v1::{
    DocumentNode, NodeId, ReadTreeRequest, ReadTreeResponse, TreeNode, UpperNode,
};
use clew_proto::query::v1::Place;
use futures::future::try_join_all;
use maud::{Markup, html};

use super::Shown;
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::structure;
use crate::text::{count, counted, size};
use crate::visitor::{OfCorpus, Visitor};

/// Most nodes that are open in each other. Trees have a handful of levels.
const MAX_OPEN: usize = 16;

/// A tree with open nodes.
struct Opened<'a> {
    visitor: &'a Visitor,
    corpus: &'a CorpusName,
    /// Document whose tree it is; empty for that of the corpus.
    document: &'a str,
    /// The open nodes, one in the other.
    open: &'a [NodeId],
    /// The nodes at the top, then the children of each open node.
    levels: &'a [Vec<TreeNode>],
}

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let document = visitor.query.raw("id");
    let open: Vec<NodeId> = visitor.query.all("open").map(parse).collect::<Result<_, Error>>()?;
    if open.len() > MAX_OPEN {
        let problem = format!("expected at most {MAX_OPEN} open nodes, got {}", open.len());
        return Err(Error::invalid("open", problem).into());
    }
    let top = read(&visitor, &corpus, document, None);
    let below = open.iter().map(|node| read(&visitor, &corpus, "", Some(node.clone())));
    let read = futures::future::try_join(top, try_join_all(below)).await;
    let shown = match read {
        Ok((top, below)) => {
            let mut silent: Vec<u32> = top.shards_missing.clone();
            silent.extend(below.iter().flat_map(|read| &read.shards_missing));
            silent.sort_unstable();
            silent.dedup();
            let levels: Vec<Vec<TreeNode>> =
                [top].into_iter().chain(below).map(|read| read.nodes).collect();
            let opened = Opened {
                visitor: &visitor,
                corpus: &corpus,
                document,
                open: &open,
                levels: &levels,
            };
            html! { (structure::silent(&silent)) (opened.whole()) }
        }
        Err(failed) if structure::is_lacking(&failed) => structure::lacking(),
        Err(failed) => return Err(failed),
    };
    let content = html! {
        h1 { "Tree" }
        p { "Summaries of what the corpus holds: each of those below it, down to the texts." }
        @if !document.is_empty() {
            p {
                "The tree of "
                a href=(visitor.of(&corpus, "document", &[("id", document)])) { bdi { (document) } }
                ". " a href=(visitor.of(&corpus, "tree", &[])) { "The whole corpus" }
            }
        }
        (shown)
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Tree), "Tree", content))
}

async fn read(
    visitor: &Visitor,
    corpus: &CorpusName,
    document: &str,
    parent: Option<NodeId>,
) -> Result<ReadTreeResponse, Failed> {
    let request =
        ReadTreeRequest { corpus: corpus.to_string(), parent, document_id: document.to_owned() };
    let read = MemoryServiceClient::new(visitor.client.services()).read_tree(request).await;
    Ok(read.map_err(|status| from_status(&status))?.into_inner())
}

impl Opened<'_> {
    fn whole(&self) -> Markup {
        let is_lost = |(node, level): (&NodeId, &Vec<TreeNode>)| {
            !level.iter().any(|one| one.id.as_ref() == Some(node))
        };
        let is_changed = self.open.iter().zip(self.levels).any(is_lost);
        let has_top = self.levels.first().is_some_and(|top| !top.is_empty());
        html! {
            @if !has_top {
                p { "No tree is built yet. One is built behind each document once it can be found." }
            } @else if is_changed {
                p class="problem" role="alert" {
                    "The tree has changed since this was opened: nodes whose texts change are others. "
                    a href=(self.at(&[])) { "Begin at the top" }
                }
            }
            (self.level(0))
        }
    }

    /// Returns the nodes of a level, with what is open in them.
    fn level(&self, depth: usize) -> Markup {
        let nodes = self.levels.get(depth).map(Vec::as_slice).unwrap_or_default();
        html! {
            @if !nodes.is_empty() {
                ul class="summaries" { @for node in nodes { (self.node(node, depth)) } }
            }
        }
    }

    fn node(&self, node: &TreeNode, depth: usize) -> Markup {
        let is_open = self.open.get(depth).is_some() && self.open.get(depth) == node.id.as_ref();
        let is_last = is_open && self.open.len() == depth + 1;
        html! {
            li id=[is_last.then_some("open")] {
                @match place(node) {
                    Some(place) if node.children == 0 => {
                        a href=(self.visitor.of_place(self.corpus, &place)) { bdi { (name(node)) } }
                    }
                    _ if is_open => {
                        a href=(self.at(&self.open[..depth])) aria-expanded="true" { bdi { (name(node)) } }
                    }
                    _ => {
                        @let open = [&self.open[..depth], node.id.as_slice()].concat();
                        a href=(format!("{}#open", self.at(&open))) aria-expanded="false" { bdi { (name(node)) } }
                    }
                }
                " " span class="quiet" {
                    @if node.children > 0 { (counted(node.children.into(), "part")) ", " }
                    (size(node.bytes)) " of text"
                }
                p dir="auto" { (node.summary) }
                @if is_open { (self.level(depth + 1)) }
            }
        }
    }

    /// Returns the address of the tree with open nodes.
    fn at(&self, open: &[NodeId]) -> String {
        let open: Vec<String> = open.iter().map(told).collect();
        let mut fields = vec![("id", self.document)];
        fields.extend(open.iter().map(|node| ("open", node.as_str())));
        self.visitor.of(self.corpus, "tree", &fields)
    }
}

/// Returns the place of a node's text, if it is in one document.
fn place(node: &TreeNode) -> Option<Place> {
    match node.id.as_ref()?.node.as_ref()? {
        Node::Document(DocumentNode { document_id, version, .. }) => {
            Some(Place { document_id: document_id.clone(), version: *version, span: node.span })
        }
        Node::Upper(_) => None,
    }
}

/// Returns what people call a node: the document and the part of it that it covers, or the first
/// and the last of its documents.
fn name(node: &TreeNode) -> String {
    match place(node) {
        Some(Place { document_id, span, .. }) => {
            let document = name_of(&node.title, &document_id);
            let span = span.unwrap_or_default();
            format!("{document}, bytes {} to {}", count(span.start), count(span.end))
        }
        None if node.first_document == node.last_document => node.first_document.clone(),
        None => format!("{} to {}", node.first_document, node.last_document),
    }
}

/// Returns a node's id as an address has it.
fn told(id: &NodeId) -> String {
    match &id.node {
        Some(Node::Document(DocumentNode { document_id, version, level, ordinal })) => {
            format!("document.{version}.{level}.{ordinal}.{document_id}")
        }
        Some(Node::Upper(UpperNode { shard, key })) => format!("upper.{shard}.{key}"),
        None => String::new(),
    }
}

/// Reads a node's id out of an address.
fn parse(told: &str) -> Result<NodeId, Error> {
    let document = |told: &str| {
        let mut parts = told.splitn(4, '.');
        Some(Node::Document(DocumentNode {
            version: parts.next()?.parse().ok()?,
            level: parts.next()?.parse().ok()?,
            ordinal: parts.next()?.parse().ok()?,
            document_id: parts.next()?.to_owned(),
        }))
    };
    let upper = |told: &str| {
        let (shard, key) = told.split_once('.')?;
        Some(Node::Upper(UpperNode { shard: shard.parse().ok()?, key: key.to_owned() }))
    };
    let node = match told.split_once('.') {
        Some(("document", rest)) => document(rest),
        Some(("upper", rest)) => upper(rest),
        _ => None,
    };
    let node = node.ok_or_else(|| {
        Error::invalid(
            "open",
            format!("expected the id of a node as the page links it, got `{told}`"),
        )
    })?;
    Ok(NodeId { node: Some(node) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_node() {
        let over_text =
            DocumentNode { document_id: "a.b/c d".to_owned(), version: 3, level: 1, ordinal: 2 };
        let above = UpperNode { shard: 4, key: "0f".repeat(16) };
        for node in [Node::Document(over_text), Node::Upper(above)] {
            let id = NodeId { node: Some(node) };
            assert_eq!(parse(&told(&id)).unwrap(), id);
        }
        for wrong in ["", "document", "document.1.2.3", "document.x.2.3.a", "upper.1", "other.1.2"]
        {
            assert_eq!(parse(wrong).unwrap_err().fields_at_fault(), ["open"], "{wrong}");
        }
    }

    #[test]
    fn a_node_is_called_by_what_it_covers() {
        let node = TreeNode {
            id: Some(parse("document.3.1.0.a.md").unwrap()),
            title: "Bees".to_owned(),
            span: Some(clew_proto::query::v1::Span { start: 1000, end: 2000 }),
            ..TreeNode::default()
        };
        assert_eq!(name(&node), "Bees, bytes 1,000 to 2,000");
        let above = TreeNode {
            id: Some(parse("upper.0.0f").unwrap()),
            first_document: "a".to_owned(),
            last_document: "z".to_owned(),
            ..TreeNode::default()
        };
        assert_eq!(name(&above), "a to z");
    }
}
