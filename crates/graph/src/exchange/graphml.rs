//! GraphML with the fields of LightRAG: `entity_type`, `description` and `source_id`. The latter
//! two may have several values, joined by `<SEP>`.

use std::collections::{BTreeMap, HashMap};

use clew_core::{EntityKey, EntityKind, Error, RelationEdge, Subgraph};
use clew_text::escaped;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::{Imported, Passages};

/// Separator of the values of a field.
const SEPARATOR: &str = "<SEP>";
const HEAD: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="label" for="node" attr.name="label" attr.type="string"/>
  <key id="entity_type" for="node" attr.name="entity_type" attr.type="string"/>
  <key id="aliases" for="node" attr.name="description" attr.type="string"/>
  <key id="segments" for="node" attr.name="source_id" attr.type="string"/>
  <key id="weight" for="edge" attr.name="weight" attr.type="double"/>
  <key id="description" for="edge" attr.name="description" attr.type="string"/>
  <key id="source_id" for="edge" attr.name="source_id" attr.type="string"/>
  <graph edgedefault="directed">
"#;

/// Writes a graph as GraphML. An edge stands for all relations from one entity to another, and its
/// weight is their number. Its `description` has their words, and its `source_id` the segment that
/// states each of them.
pub fn to_graphml(graph: &Subgraph) -> String {
    let mut xml = HEAD.to_owned();
    for node in &graph.entities {
        let segments = joined(node.segments.iter().map(ToString::to_string));
        let fields = [
            ("label", node.name.clone()),
            ("entity_type", node.kind.as_str().to_owned()),
            ("aliases", joined(node.aliases.iter().cloned())),
            ("segments", segments),
        ];
        xml.push_str(&element(&format!(r#"node id="{}""#, escaped(&node.key.0)), "node", &fields));
    }
    let mut pairs: BTreeMap<(&EntityKey, &EntityKey), Vec<&RelationEdge>> = BTreeMap::new();
    for edge in &graph.relations {
        pairs.entry((&edge.head, &edge.tail)).or_default().push(edge);
    }
    for ((head, tail), edges) in pairs {
        let ends = format!(r#"edge source="{}" target="{}""#, escaped(&head.0), escaped(&tail.0));
        let fields = [
            ("weight", format!("{}.0", edges.len())),
            ("description", joined(edges.iter().map(|edge| edge.text.clone()))),
            ("source_id", joined(edges.iter().map(|edge| edge.segment.to_string()))),
        ];
        xml.push_str(&element(&ends, "edge", &fields));
    }
    xml.push_str("  </graph>\n</graphml>\n");
    xml
}

fn joined(values: impl Iterator<Item = String>) -> String {
    // A value that contains the separator must not become two.
    let values: Vec<String> = values.map(|value| value.replace(SEPARATOR, " ")).collect();
    values.join(SEPARATOR)
}

fn element(start: &str, name: &str, fields: &[(&str, String)]) -> String {
    let mut xml = format!("    <{start}>\n");
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        xml.push_str(&format!("      <data key=\"{key}\">{}</data>\n", escaped(value)));
    }
    xml.push_str(&format!("    </{name}>\n"));
    xml
}

/// Reads GraphML with the fields of LightRAG.
///
/// An entity is in each passage of its `source_id`. A relation is in the passage at the same
/// position as its description. If there are more values of one field than of the other, the last
/// value of the shorter goes with the rest. The name of an entity is its `label`, or else the id of
/// its node.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] with the line that is not as expected.
pub fn from_graphml(xml: &str) -> Result<Imported, Error> {
    let mut file = File { reader: Reader::from_str(xml), xml, open: Vec::new(), has_begun: false };
    let mut contents = Contents::default();
    while let Some(part) = file.next_part()? {
        match part {
            Part::Key { id, field } => {
                contents.fields.insert(id, field);
            }
            Part::Item(item) => contents.add(&file, item)?,
        }
    }
    Ok(contents.passages.imported)
}

/// Node or edge.
#[derive(Default)]
struct Item {
    /// Id of the node, or the ids of the edge's two ends.
    ids: Vec<String>,
    /// Data by the ids of keys.
    data: Vec<(String, String)>,
}

enum Part {
    Key { id: String, field: String },
    Item(Item),
}

struct File<'x> {
    reader: Reader<&'x [u8]>,
    xml: &'x str,
    /// Names of the open elements.
    open: Vec<String>,
    has_begun: bool,
}

/// Maximum depth of elements. GraphML is deeper only with graphs in nodes, which LightRAG does not
/// write.
const MAX_DEPTH: usize = 16;

impl File<'_> {
    fn wrong(&self, problem: impl std::fmt::Display) -> Error {
        let at = usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX);
        let read = &self.xml.as_bytes()[..at.min(self.xml.len())];
        let line = read.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::invalid("graphml", format!("line {line}: {problem}"))
    }

    fn event(&mut self) -> Result<Event<'static>, Error> {
        let event = self.reader.read_event().map(Event::into_owned);
        event.map_err(|error| self.wrong("expected well-formed XML").with_source(error))
    }

    /// Returns the next part, or `None` at the end.
    fn next_part(&mut self) -> Result<Option<Part>, Error> {
        loop {
            let (start, is_empty) = match self.event()? {
                Event::Start(start) => (start, false),
                Event::Empty(start) => (start, true),
                Event::End(_) => {
                    self.open.pop();
                    continue;
                }
                Event::Eof if !self.open.is_empty() => {
                    return Err(self.wrong("expected closing tags, got the end"));
                }
                Event::Eof if !self.has_begun => return Err(self.wrong("expected `graphml`")),
                Event::Eof => return Ok(None),
                _ => continue,
            };
            let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
            if self.open.is_empty() && name != "graphml" {
                return Err(self.wrong("expected `graphml`"));
            }
            self.has_begun = true;
            match name.as_str() {
                "key" => {
                    let key = Part::Key {
                        id: self.attribute(&start, "id")?,
                        field: self.attribute(&start, "attr.name")?,
                    };
                    self.enter(name, is_empty)?;
                    return Ok(Some(key));
                }
                "node" | "edge" => {
                    let wanted: &[&str] =
                        if name == "node" { &["id"] } else { &["source", "target"] };
                    let ids = wanted.iter().map(|wanted| self.attribute(&start, wanted));
                    let ids = ids.collect::<Result<Vec<String>, Error>>()?;
                    let data = if is_empty { Vec::new() } else { self.data()? };
                    return Ok(Some(Part::Item(Item { ids, data })));
                }
                _ => self.enter(name, is_empty)?,
            }
        }
    }

    fn enter(&mut self, name: String, is_empty: bool) -> Result<(), Error> {
        if self.open.len() == MAX_DEPTH {
            return Err(self.wrong("expected fewer elements within each other"));
        }
        if !is_empty {
            self.open.push(name);
        }
        Ok(())
    }

    fn attribute(&self, start: &BytesStart<'_>, name: &str) -> Result<String, Error> {
        let attribute = start.try_get_attribute(name).ok().flatten();
        let value = attribute.and_then(|found| {
            Some(found.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
        });
        value.ok_or_else(|| self.wrong(format!("expected an attribute `{name}`")))
    }

    /// Reads the data of a node or edge, up to its end.
    fn data(&mut self) -> Result<Vec<(String, String)>, Error> {
        let mut data = Vec::new();
        loop {
            match self.event()? {
                Event::Start(start) if start.local_name().as_ref() == b"data" => {
                    let key = self.attribute(&start, "key")?;
                    data.push((key, self.text()?));
                }
                Event::Empty(_) | Event::Comment(_) | Event::Text(_) => {}
                Event::End(_) => return Ok(data),
                _ => return Err(self.wrong("expected `data` in a node or edge")),
            }
        }
    }

    /// Reads text up to the end of its element.
    fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        loop {
            match self.event()? {
                Event::Text(part) => text.push_str(&part.xml10_content().unwrap_or_default()),
                Event::CData(part) => text.push_str(&part.xml10_content().unwrap_or_default()),
                Event::GeneralRef(part) => {
                    let name = part.decode().unwrap_or_default();
                    let one = part.resolve_char_ref().ok().flatten();
                    match (one, resolve_predefined_entity(&name)) {
                        (Some(c), _) => text.push(c),
                        (None, Some(known)) => text.push_str(known),
                        (None, None) => return Err(self.wrong("expected a known entity reference")),
                    }
                }
                Event::Comment(_) => {}
                Event::End(_) => return Ok(text),
                _ => return Err(self.wrong("expected text in `data`")),
            }
        }
    }
}

#[derive(Default)]
struct Contents {
    /// Names of fields by the ids of keys.
    fields: HashMap<String, String>,
    /// Names and kinds by the ids of nodes.
    nodes: HashMap<String, (String, EntityKind)>,
    passages: Passages,
}

impl Contents {
    fn add(&mut self, file: &File<'_>, item: Item) -> Result<(), Error> {
        let mut data: HashMap<&str, &str> = HashMap::new();
        for (key, value) in &item.data {
            let field = self.fields.get(key);
            let field = field.ok_or_else(|| file.wrong("expected data of a declared `key`"))?;
            data.insert(field, value);
        }
        let of = |field: &str| data.get(field).copied().unwrap_or_default();
        let sources: Vec<&str> = of("source_id").split(SEPARATOR).map(str::trim).collect();
        if let [head, tail] = item.ids.as_slice() {
            let end = |id: &String| {
                let node = self.nodes.get(id).cloned();
                node.ok_or_else(|| file.wrong("expected the ends of an edge to be nodes before it"))
            };
            let ends = [end(head)?, end(tail)?];
            let texts: Vec<&str> = of("description").split(SEPARATOR).map(str::trim).collect();
            self.relate(&ends, &texts, &sources);
            return Ok(());
        }
        let id = item.ids.into_iter().next().unwrap_or_default();
        let name = if data.contains_key("label") { of("label") } else { &id };
        // LightRAG sometimes quotes names.
        let name = name.trim_matches(|c: char| c == '"' || c.is_whitespace()).to_owned();
        let kind = kind(of("entity_type"));
        for source in sources {
            let passage = self.passages.passage(source);
            self.passages.entity(passage, &name, kind);
        }
        self.nodes.insert(id, (name, kind));
        Ok(())
    }

    fn relate(&mut self, ends: &[(String, EntityKind); 2], texts: &[&str], sources: &[&str]) {
        for at in 0..texts.len().max(sources.len()) {
            let text = texts[at.min(texts.len() - 1)];
            if text.is_empty() {
                self.passages.imported.left_out += 1;
                continue;
            }
            let passage = self.passages.passage(sources[at.min(sources.len() - 1)]);
            let [head, tail] =
                ends.each_ref().map(|(name, kind)| self.passages.entity(passage, name, *kind));
            self.passages.relate(passage, head, text, tail);
        }
    }
}

/// Maps LightRAG's type of an entity to a kind.
fn kind(entity_type: &str) -> EntityKind {
    match entity_type.trim_matches('"').to_lowercase().as_str() {
        "person" => EntityKind::Person,
        "organization" | "organisation" => EntityKind::Organisation,
        "geo" | "location" | "place" => EntityKind::Place,
        "date" | "time" => EntityKind::Time,
        _ => EntityKind::Other,
    }
}
