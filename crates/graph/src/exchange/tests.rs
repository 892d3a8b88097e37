use std::collections::BTreeSet;

use clew_core::{EntityKey, EntityNode, RelationEdge, SegmentId, Subgraph, Version};
use proptest::prelude::*;

use super::*;

const LIGHTRAG: &str = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d3" for="edge" attr.name="weight" attr.type="double" />
  <key id="d6" for="edge" attr.name="source_id" attr.type="string" />
  <key id="d4" for="edge" attr.name="description" attr.type="string" />
  <key id="d2" for="node" attr.name="source_id" attr.type="string" />
  <key id="d0" for="node" attr.name="entity_type" attr.type="string" />
  <graph edgedefault="undirected">
    <node id="&quot;THUVIA&quot;">
      <data key="d0">"PERSON"</data>
      <data key="d2">chunk-1&lt;SEP&gt;chunk-2</data>
    </node>
    <node id="HELIUM"><data key="d0">GEO</data><data key="d2">chunk-2</data></node>
    <edge source="&quot;THUVIA&quot;" target="HELIUM">
      <data key="d3">2.0</data>
      <data key="d4">Thuvia &amp; Helium.&lt;SEP&gt;Thuvia leaves&#33;</data>
      <data key="d6">chunk-2&lt;SEP&gt;chunk-1&lt;SEP&gt;chunk-3</data>
    </edge>
  </graph>
</graphml>"#;

/// Returns the contents of a passage, as text.
fn told(passage: &ImportedPassage) -> Vec<String> {
    let Extraction { entities, relations, .. } = &passage.extraction;
    let entity = |entity: &Entity| format!("{}: {}", entity.kind.as_str(), entity.name);
    let relation = |relation: &Relation| {
        let (head, tail) = (&entities[relation.head].name, &entities[relation.tail].name);
        format!("{head} | {} | {tail}", relation.text)
    };
    entities.iter().map(entity).chain(relations.iter().map(relation)).collect()
}

#[test]
fn what_lightrag_writes_is_read() {
    let imported = from_graphml(LIGHTRAG).unwrap();
    let names: Vec<&str> = imported.passages.iter().map(|passage| passage.name.as_str()).collect();
    assert_eq!(names, ["chunk-1", "chunk-2", "chunk-3"]);
    let both = ["person: THUVIA", "place: HELIUM"];
    let leaves = "THUVIA | Thuvia leaves! | HELIUM";
    assert_eq!(told(&imported.passages[0]), [&both[..], &[leaves]].concat());
    let greets = "THUVIA | Thuvia & Helium. | HELIUM";
    assert_eq!(told(&imported.passages[1]), [&both[..], &[greets]].concat());
    assert_eq!(told(&imported.passages[2]), [&both[..], &[leaves]].concat());
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    for (from, to, expected) in [
        ("<graphml ", "<html ", "line 2: expected `graphml`"),
        (" id=\"HELIUM\"", "", "line 13: expected an attribute `id`"),
        (
            "target=\"HELIUM\"",
            "target=\"MARS\"",
            "line 18: expected the ends of an edge to be nodes",
        ),
        ("key=\"d3\"", "key=\"d9\"", "line 18: expected data of a declared `key`"),
        ("&amp;", "&oops;", "line 16: expected a known entity reference"),
        ("</edge>", "", "line 19: expected well-formed XML"),
        ("</graph>\n</graphml>", "", "line 19: expected closing tags"),
        ("2.0", "<b/>", "line 15: expected text in `data`"),
    ] {
        assert!(LIGHTRAG.contains(from), "{from}");
        let error = from_graphml(&LIGHTRAG.replace(from, to)).unwrap_err();
        let told = &error.violations()[0].description;
        assert!(told.starts_with(expected), "{from}: {told}");
    }
    let deep = format!("<graphml>{}", "<x>".repeat(100_000));
    assert!(from_graphml(&deep).is_err());
}

#[test]
fn what_hipporag_writes_is_read() {
    let lines = r#"
{"idx": 7, "title": "Riemann integral", "entities": ["1854", " "], "triples": [["Riemann", "made it in", "1854"], ["a", "b"], ["a", "", "c"]]}
{"idx": "x", "entities": [], "triples": [], "more": null}"#;
    let imported = from_openie(lines).unwrap();
    let [first, second] = &imported.passages[..] else { panic!("{imported:?}") };
    assert_eq!((first.name.as_str(), first.title.as_str()), ("7", "Riemann integral"));
    assert_eq!(told(first), ["other: 1854", "other: Riemann", "Riemann | made it in | 1854"]);
    assert_eq!((second.name.as_str(), imported.left_out), ("x", 2));

    let error = from_openie("\n{\"idx\": 0, \"entities\": []}").unwrap_err();
    let told = &error.violations()[0].description;
    assert!(told.starts_with("line 2, column 26: expected an object"), "{told}");
}

#[test]
fn json_has_all_fields() {
    let graph = graph(&[(0, "<gave \"it\" to>", 1, 3)]);
    let value: serde_json::Value = serde_json::from_str(&to_json(&graph)).unwrap();
    assert_eq!(value["entities"][1]["name"], "N1 & <co>");
    assert_eq!(value["entities"][1]["segments"][0]["ordinal"], 3);
    assert_eq!(value["relations"][0]["text"], "<gave \"it\" to>");
    assert_eq!(value["relations"][0]["end"], 5);
}

/// Returns a graph of relations between numbered entities, each in a segment.
fn graph(relations: &[(u8, &str, u8, u32)]) -> Subgraph {
    let key = |number: u8| EntityKey(format!("n{number}"));
    let segment =
        |ordinal| SegmentId { document_id: "d".parse().unwrap(), version: Version(1), ordinal };
    let numbers: BTreeSet<u8> = relations.iter().flat_map(|(h, _, t, _)| [*h, *t]).collect();
    let node = |number: u8| {
        let own = relations.iter().filter(|(h, _, t, _)| *h == number || *t == number);
        let segments: BTreeSet<SegmentId> = own.map(|(_, _, _, at)| segment(*at)).collect();
        EntityNode {
            key: key(number),
            name: format!("N{number} & <co>"),
            kind: EntityKind::Place,
            aliases: vec!["a<SEP>b".to_owned()],
            mentioned_in: segments.len() as u64,
            titled: Vec::new(),
            description: String::new(),
            segments: segments.into_iter().collect(),
        }
    };
    let edge = |(head, text, tail, at): &(u8, &str, u8, u32)| RelationEdge {
        head: key(*head),
        text: (*text).to_owned(),
        tail: key(*tail),
        segment: segment(*at),
        evidence: Span::new(1, 5),
    };
    Subgraph {
        entities: numbers.into_iter().map(node).collect(),
        relations: relations.iter().map(edge).collect(),
        ..Subgraph::default()
    }
}

proptest! {
    #[test]
    fn what_is_written_as_graphml_is_read_back(
        relations in prop::collection::vec((0..4_u8, "[a-z<>&\"'\\n\\t\u{1}é]{0,6}[a-z]", 0..4_u8, 0..4_u32), 1..8)
    ) {
        let relations: Vec<(u8, &str, u8, u32)> =
            relations.iter().map(|(h, text, t, at)| (*h, text.trim(), *t, *at)).collect();
        let imported = from_graphml(&to_graphml(&graph(&relations))).unwrap();
        let mut read: Vec<String> = Vec::new();
        for passage in &imported.passages {
            prop_assert!(passage.extraction.entities.iter().all(|e| e.kind == EntityKind::Place));
            let told = told(passage).into_iter().filter(|told| told.contains(" | "));
            read.extend(told.map(|told| format!("{}: {told}", passage.name)));
        }
        let mut expected: Vec<String> = relations
            .iter()
            .map(|(h, text, t, at)| format!("d#{at}: N{h} & <co> | {text} | N{t} & <co>"))
            .map(|told| told.replace('\u{1}', "\u{fffd}"))
            .collect();
        read.sort();
        expected.sort();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_a_panic(
        garbage in "(<(graphml|node id=\"a\"|edge source=\"a\" target=\"a\"|data key=\"d0\"|key id=\"d0\" attr.name=\"source_id\"|/node|/edge|/data|/graphml|!--|\\?|!\\[CDATA\\[)?/?>?|&[a-z#]{0,3};?|\\PC){0,24}",
        cut in 0..LIGHTRAG.len(),
    ) {
        let _ = from_graphml(&garbage);
        let _ = from_graphml(&format!("<graphml>{garbage}"));
        let _ = from_graphml(&LIGHTRAG.replacen("HELIUM", &garbage, 1));
        let _ = from_openie(&garbage);
        let _ = from_openie(&format!("{{\"idx\": 1, {garbage}}}"));
        prop_assert!(from_graphml(&LIGHTRAG[..cut]).is_err());
    }
}
