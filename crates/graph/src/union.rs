//! Union of several graphs.

use std::collections::{BTreeSet, HashMap};

use clew_core::{EntityKey, EntityKind, EntityNode, RelationEdge, Subgraph};

/// Merges several graphs, such as those of several shards, into one.
///
/// Segments are identified by document, and a document is in one shard only. If several graphs know
/// an entity, its name is that of the graph that mentions it most, and its kind is that of the
/// first graph, in the same order, that knows its kind.
pub fn union(parts: impl IntoIterator<Item = Subgraph>) -> Subgraph {
    let mut whole = Subgraph::default();
    let mut compared: Option<bool> = None;
    let mut nodes: HashMap<EntityKey, Vec<EntityNode>> = HashMap::new();
    for part in parts {
        whole.seeds.extend(part.seeds);
        whole.relations.extend(part.relations);
        whole.is_cut |= part.is_cut;
        whole.is_being_built |= part.is_being_built;
        compared = Some(compared.unwrap_or(true) && part.is_compared);
        for node in part.entities {
            nodes.entry(node.key.clone()).or_default().push(node);
        }
    }
    whole.is_compared = compared.unwrap_or(false);
    whole.seeds.sort_unstable();
    whole.seeds.dedup();
    whole.relations.sort_by(|a, b| {
        let place = |edge: &RelationEdge| (edge.segment.clone(), edge.evidence);
        let words = |edge: &RelationEdge| (edge.head.clone(), edge.tail.clone(), edge.text.clone());
        place(a).cmp(&place(b)).then_with(|| words(a).cmp(&words(b)))
    });
    whole.relations.dedup();
    whole.entities = nodes.into_values().filter_map(one_of).collect();
    whole.entities.sort_by(|a, b| a.key.cmp(&b.key));
    whole
}

/// Merges the nodes of one entity.
fn one_of(mut nodes: Vec<EntityNode>) -> Option<EntityNode> {
    nodes.sort_by(|a, b| {
        b.mentioned_in.cmp(&a.mentioned_in).then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind)))
    });
    // Parts of the same graph share segments of the entity; parts of different graphs do not.
    let mut mentioned_in = 0;
    let mut segments = BTreeSet::new();
    for node in &nodes {
        let is_apart = node.segments.iter().all(|segment| !segments.contains(segment));
        mentioned_in = match is_apart {
            true => mentioned_in + node.mentioned_in,
            false => node.mentioned_in.max(mentioned_in),
        };
        segments.extend(node.segments.iter().cloned());
    }
    let kinds = nodes.iter().map(|node| node.kind);
    let kind = kinds.clone().find(|kind| *kind != EntityKind::Other);
    let kind = kind.or_else(|| kinds.clone().next())?;
    let first = nodes.first()?;
    let (key, name) = (first.key.clone(), first.name.clone());
    let described = nodes.iter().map(|node| &node.description).find(|said| !said.is_empty());
    let description = described.cloned().unwrap_or_default();
    let titled: BTreeSet<_> = nodes.iter().flat_map(|node| node.titled.iter().cloned()).collect();
    let mut aliases: Vec<String> = Vec::new();
    for other in nodes.into_iter().flat_map(|node| std::iter::once(node.name).chain(node.aliases)) {
        if other != name && !aliases.contains(&other) {
            aliases.push(other);
        }
    }
    let mentioned_in = mentioned_in.max(segments.len() as u64);
    Some(EntityNode {
        key,
        name,
        kind,
        aliases,
        segments: segments.into_iter().collect(),
        mentioned_in,
        titled: titled.into_iter().collect(),
        description,
    })
}
