use std::collections::BTreeMap;

use clew_core::{
    Cost, Entity, EntityKind, EntityNode, EntityVectors, Extraction, GraphQuery, Like, Relation,
    RelationEdge, SegmentId, Signs, Span, Subgraph,
};
use proptest::prelude::*;

use super::*;
use crate::union;

const SEGMENT_BYTES: usize = 100;

fn id(name: &str) -> DocumentId {
    name.parse().unwrap()
}

fn key(name: &str) -> EntityKey {
    entity_key(name).unwrap()
}

/// Returns a document. Each segment has relations `head > words > tail`; a person begins with `@`.
fn document(name: &str, title: &str, segments: &[&[&str]]) -> GraphDocument {
    let segments = segments.iter().zip(0_u32..).map(|(told, ordinal)| {
        let start = ordinal as usize * SEGMENT_BYTES;
        let span = Span::new(start, start + SEGMENT_BYTES);
        GraphSegment { ordinal, span, extraction: extraction(told) }
    });
    let segments = segments.collect();
    GraphDocument { document_id: id(name), version: Version(1), title: title.to_owned(), segments }
}

fn extraction(told: &[&str]) -> Extraction {
    let mut extraction = Extraction { cost: Cost::default(), ..Extraction::default() };
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for (at, sentence) in told.iter().enumerate() {
        let mut parts = sentence.split(" > ");
        let (head, text, tail) = (parts.next(), parts.next(), parts.next());
        let mut entity = |name: &str| {
            let kind = if name.starts_with('@') { EntityKind::Person } else { EntityKind::Other };
            let name = name.trim_start_matches('@').to_owned();
            let next = extraction.entities.len();
            let at = *index.entry(name.clone()).or_insert(next);
            if at == next {
                extraction.entities.push(Entity { name, kind, mentions: Vec::new() });
            }
            at
        };
        let head = entity(head.unwrap());
        if let (Some(text), Some(tail)) = (text, tail) {
            let (text, tail, evidence) = (text.to_owned(), entity(tail), Span::new(at, at + 1));
            extraction.relations.push(Relation { head, text, tail, evidence });
        }
    }
    extraction
}

fn graph(documents: &[GraphDocument]) -> Graph {
    let mut graph = Graph::default();
    for document in documents {
        graph.insert(document.clone());
    }
    graph
}

fn keys<'a>(keys: impl IntoIterator<Item = &'a EntityKey>) -> Vec<&'a str> {
    keys.into_iter().map(|key| key.0.as_str()).collect()
}

fn entity_keys(part: &Subgraph) -> Vec<&str> {
    keys(part.entities.iter().map(|node| &node.key))
}

fn told(edge: &RelationEdge) -> String {
    format!("{} {} {}", edge.head, edge.text, edge.tail)
}

fn around(entities: &[&str], hops: u32) -> GraphQuery {
    let entities = entities.iter().map(|name| key(name)).collect();
    GraphQuery { entities, hops, most_entities: 100, most_relations: 100, ..GraphQuery::default() }
}

fn myths() -> Graph {
    graph(&[
        document(
            "crete",
            "Labyrinth (building)",
            &[
                &["Daedalus > built > the Labyrinth", "Minotaur > lived in > Labyrinth"],
                &["@Ariadne > gave a thread to > @Theseus", "Theseus > killed > The Minotaur"],
            ],
        ),
        document("naxos", "", &[&["Theseus > left > Ariadne", "@Dionysus > found > Ariadne"]]),
    ])
}

fn place(document: &str, version: u64, span: Span) -> clew_core::DocumentRange {
    clew_core::DocumentRange { document_id: id(document), version: Version(version), span }
}

#[test]
fn names_of_one_key_are_one_entity_in_all_documents() {
    let graph = myths();
    assert_eq!((graph.documents(), graph.entities(), graph.relations()), (2, 6, 6));
    let whole = graph.whole();
    let all = ["ariadne", "daedalus", "dionysus", "labyrinth", "minotaur", "theseus"];
    assert_eq!(entity_keys(&whole), all);
    let segment = |document: &str, ordinal| SegmentId {
        document_id: id(document),
        version: Version(1),
        ordinal,
    };
    let theseus = &whole.entities[5];
    assert_eq!(theseus.segments, [segment("crete", 1), segment("naxos", 0)]);
    assert_eq!((theseus.kind, theseus.mentioned_in), (EntityKind::Person, 2));
    let labyrinth = &whole.entities[3];
    assert_eq!(labyrinth.name, "Labyrinth");
    assert_eq!(labyrinth.aliases, ["Labyrinth (building)", "the Labyrinth"]);
    // All segments of the document mention its title.
    assert_eq!(labyrinth.segments, [segment("crete", 0), segment("crete", 1)]);
    assert_eq!(graph.titled(&key("The Labyrinth")), [id("crete")]);
    assert!(graph.titled(&key("Theseus")).is_empty());
    // Evidence is a byte range in the document.
    assert_eq!(whole.relations[3].evidence, Span::new(SEGMENT_BYTES + 1, SEGMENT_BYTES + 2));
    assert_eq!(told(&whole.relations[3]), "theseus killed minotaur");
}

#[test]
fn a_surname_is_the_one_full_name_of_its_document() {
    let graph = graph(&[
        document("a", "", &[&["@Pierre Bezukhov > met > Moscow"], &["@Bezukhov > left > Moscow"]]),
        document("b", "", &[&["@Bezukhov > died in > Moscow"]]),
        document("c", "", &[&["@Jane Bennet", "@Elizabeth Bennet", "@Bennet > saw > Darcy"]]),
        document("d", "", &[&["University of Oxford", "Oxford > is in > England"]]),
    ]);
    let whole = graph.whole();
    let pierre = whole.entities.iter().find(|node| node.key == key("Pierre Bezukhov")).unwrap();
    assert_eq!((pierre.name.as_str(), pierre.mentioned_in), ("Pierre Bezukhov", 2));
    assert_eq!(pierre.aliases, ["Bezukhov"]);
    for alone in ["Bezukhov", "Bennet", "Oxford"] {
        let node = whole.entities.iter().find(|node| node.key == key(alone)).unwrap();
        assert_eq!(node.mentioned_in, 1, "{alone}");
    }
    assert_eq!(keys(graph.near(&key("Bezukhov")).iter().map(|(key, _)| key)), ["pierre bezukhov"]);
}

#[test]
fn a_text_names_what_it_writes_like_a_name() {
    let graph = graph(&[document(
        "a",
        "",
        &[
            &["@Pierre Bezukhov > read in > War and Peace", "War > was in > 1812"],
            &["@Bezukhov > left > The Who", "thread > of > Thread"],
        ],
    )]);
    for (text, expected) in [
        ("Did Pierre Bezukhov read war and peace?", &["pierre bezukhov", "war and peace"][..]),
        ("What did Bezukhov's friends do in 1812?", &["pierre bezukhov", "1812"]),
        ("Which war did Bezukhov see?", &["pierre bezukhov"]),
        ("War", &["war"]),
        ("which war was that?", &["war"]),
        ("Who said that The Who were in the War?", &["the who", "war"]),
        ("", &[]),
        ("— ?", &[]),
    ] {
        assert_eq!(keys(&graph.find(text)), expected, "{text}");
    }
}

#[test]
fn a_part_grows_by_hops_from_texts_entities_and_places() {
    let graph = myths();
    let seeds_only = graph.subgraph(&around(&["Theseus", "Ariadne", "nobody"], 0));
    assert_eq!(keys(&seeds_only.seeds), ["ariadne", "theseus"]);
    assert_eq!(entity_keys(&seeds_only), ["ariadne", "theseus"]);
    let relations: Vec<String> = seeds_only.relations.iter().map(told).collect();
    assert_eq!(relations, ["ariadne gave a thread to theseus", "theseus left ariadne"]);
    assert!(!seeds_only.is_cut);

    let one_hop = graph.subgraph(&around(&["Daedalus"], 1));
    assert_eq!(entity_keys(&one_hop), ["daedalus", "labyrinth"]);
    let three_hops = graph.subgraph(&around(&["Daedalus"], 3));
    assert_eq!(entity_keys(&three_hops), ["daedalus", "labyrinth", "minotaur", "theseus"]);

    let texts = vec!["Who found Ariadne?".to_owned()];
    let named = graph.subgraph(&GraphQuery { texts, ..around(&[], 1) });
    assert_eq!(entity_keys(&named), ["ariadne", "dionysus", "theseus"]);

    let places = vec![place("naxos", 1, Span::new(50, 51))];
    let there = graph.subgraph(&GraphQuery { places, ..around(&[], 0) });
    assert_eq!(keys(&there.seeds), ["ariadne", "dionysus", "theseus"]);
    for (version, at) in [(2, 0), (1, SEGMENT_BYTES), (1, usize::MAX)] {
        let places = vec![place("naxos", version, Span::new(at, at))];
        assert_eq!(graph.subgraph(&GraphQuery { places, ..around(&[], 0) }), Subgraph::default());
    }
}

const MODEL: &str = "0f";

fn signs(bits: u64) -> Signs {
    Signs::from_bytes("signs", &bits.to_le_bytes()).unwrap()
}

/// Adds vectors of 64 components to the entities that are in `vectors`.
fn with_vectors(mut document: GraphDocument, vectors: &[(&str, u64)]) -> GraphDocument {
    for extraction in document.segments.iter_mut().map(|segment| &mut segment.extraction) {
        let bits = |entity: &Entity| vectors.iter().find(|(name, _)| *name == entity.name);
        let named = (0..).zip(&extraction.entities);
        let of = named.filter_map(|(at, entity)| Some((at, signs(bits(entity)?.1)))).collect();
        extraction.vectors = Some(EntityVectors { encoder: MODEL.to_owned(), dimension: 64, of });
    }
    document
}

fn like(bits: u64, most_entities: usize) -> GraphQuery {
    let like = Some(Like { encoder: MODEL.to_owned(), signs: signs(bits) });
    GraphQuery { like, describe: true, most_entities, ..GraphQuery::default() }
}

#[test]
fn entities_are_found_by_their_vectors_among_all_that_are_seen() {
    let crete = document("crete", "Crete", &[&["Daedalus > built > Labyrinth"]]);
    let crete = with_vectors(crete, &[("Daedalus", 0b0000), ("Labyrinth", 0b1111_1111)]);
    let naxos = document("naxos", "", &[&["Dionysus > found > Ariadne"]]);
    let naxos = with_vectors(naxos, &[("Dionysus", 0b0001), ("Ariadne", 0b0111)]);
    let mut graph = graph(&[crete, naxos]);
    let found = |part: &Subgraph| (entity_keys(part).join(" "), part.is_compared);
    let nearest = |bits, most| graph.subgraph(&like(bits, most));
    assert_eq!(found(&nearest(0b0000, 1)), ("daedalus".to_owned(), true));
    assert_eq!(found(&nearest(0b0001, 2)), ("daedalus dionysus".to_owned(), true));
    assert_eq!(found(&nearest(0b1111, 1)), ("ariadne".to_owned(), true));
    // The title has no vector, and needs none.
    assert_eq!(nearest(0, 9).entities.len(), 4);
    assert_eq!(nearest(0b0000, 1).entities[0].description, "daedalus built labyrinth");
    // As if the hidden document did not exist.
    let hidden = id("naxos");
    let seen = graph.without([&hidden]).subgraph(&like(0b11_1111, 1));
    assert_eq!(found(&seen), ("labyrinth".to_owned(), true));
    // Vectors of another model are not compared, nor are entities without one. The result says so.
    let other = Like { encoder: "another".to_owned(), signs: signs(0) };
    let other = graph.subgraph(&GraphQuery { like: Some(other), ..like(0, 9) });
    assert_eq!(found(&other), (String::new(), false));
    graph.insert(document("old", "", &[&["Minos > ruled > Crete"]]));
    let part = graph.subgraph(&like(0b0000, 1));
    assert_eq!(found(&part), ("daedalus".to_owned(), false));
    graph.remove(&id("old"));
    assert!(graph.subgraph(&like(0, 1)).is_compared);
    assert!(!graph.subgraph(&around(&["Daedalus"], 0)).is_compared);
}

#[test]
fn names_of_several_documents_are_near_if_they_are_alike_by_their_vectors() {
    let telling = |name: &str, told: &str, vectors: &[(&str, u64)]| {
        with_vectors(document(name, "", &[&[told]]), vectors)
    };
    let a = telling("a", "Istanbul > lies on > Bosporus", &[("Istanbul", 0b111), ("Bosporus", !0)]);
    // Entities of the same document are different, however similar they are.
    let b = telling("b", "Byzantium > fell to > Rome", &[("Byzantium", 0b110), ("Rome", 0b110)]);
    let c = telling("c", "Ankara > is in > Turkey", &[("Ankara", 0xffff_0000), ("Turkey", !0b1)]);
    let graph = graph(&[a, b, c]);
    let part = graph.subgraph(&around(&["Istanbul"], 1));
    assert_eq!(entity_keys(&part), ["bosporus", "byzantium", "istanbul", "rome"]);
    let part = graph.subgraph(&around(&["Byzantium"], 1));
    assert_eq!(entity_keys(&part), ["byzantium", "istanbul", "rome"]);
    let relations: Vec<String> = part.relations.iter().map(told).collect();
    assert_eq!(relations, ["byzantium fell to rome"]);
}

#[test]
fn what_is_embedded_of_entities_is_their_names_and_what_is_said_of_them() {
    let first = extraction(&["Daedalus > built > the Labyrinth", "Ada"]);
    let second = extraction(&["Labyrinth > held > Minotaur"]);
    let described = crate::describe(&[&first, &second], &[key("Ada")].into());
    let told: Vec<(usize, u32, &str)> =
        described.iter().map(|of| (of.extraction, of.entity, of.text.as_str())).collect();
    let expected = [
        (0, 0, "Daedalus: Daedalus built the Labyrinth"),
        (0, 1, "the Labyrinth: Daedalus built the Labyrinth; Labyrinth held Minotaur"),
        (1, 1, "Minotaur: Labyrinth held Minotaur"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_cut_keeps_what_has_most_relations_and_is_rare() {
    let graph = graph(&[
        document(
            "a",
            "",
            &[&["Seed > saw > Friend", "Friend > heard > Seed", "Seed > saw > Common"]],
        ),
        document("b", "", &[&["Common > is > Everywhere", "Seed > met > Rare"], &["Common"]]),
    ]);
    let cut = |most_entities, most_relations| {
        graph.subgraph(&GraphQuery { most_entities, most_relations, ..around(&["Seed"], 2) })
    };
    assert_eq!(entity_keys(&cut(2, 9)), ["friend", "seed"]);
    assert_eq!(entity_keys(&cut(3, 9)), ["friend", "rare", "seed"]);
    assert!(cut(3, 9).is_cut && cut(9, 2).is_cut && !cut(9, 9).is_cut);
    let relations: Vec<String> = cut(9, 4).relations.iter().map(told).collect();
    // One relation of each pair, and not both of the seed and its friend.
    let expected = ["seed saw friend", "seed saw common", "common is everywhere", "seed met rare"];
    assert_eq!(relations, expected);
    let relations: Vec<String> = cut(9, 3).relations.iter().map(told).collect();
    assert_eq!(relations, ["seed saw friend", "seed saw common", "seed met rare"]);
    assert_eq!(cut(0, 0), Subgraph { is_cut: true, ..Subgraph::default() });
}

#[test]
fn a_part_reaches_what_goes_by_another_name_elsewhere() {
    let graph = graph(&[
        document("a", "", &[&["@Pierre Bezukhov > married > Helene"]]),
        document("b", "", &[&["@Bezukhov > inherited > a fortune"]]),
    ]);
    let part = graph.subgraph(&around(&["Bezukhov"], 2));
    assert_eq!(entity_keys(&part), ["bezukhov", "fortune", "helene", "pierre bezukhov"]);
}

#[test]
fn nonsense_of_a_model_is_left_out() {
    let mut odd = document("a", "The", &[&["Ada > is > Ada"], &["The > is > Ada"]]);
    let extraction = &mut odd.segments[1].extraction;
    let lost = Relation { head: 7, text: "x".to_owned(), tail: 0, evidence: Span::new(0, 1) };
    extraction.relations.push(lost);
    odd.segments.push(odd.segments[0].clone());
    let graph = graph(&[odd]);
    assert_eq!((graph.entities(), graph.relations()), (1, 0));
    assert_eq!(graph.whole().entities[0].mentioned_in, 2);
}

#[test]
fn the_union_of_parts_is_the_part_of_the_union() {
    let (all, crete, naxos) = (myths(), &mut myths(), &mut myths());
    crete.remove(&id("naxos"));
    naxos.remove(&id("crete"));
    let query = around(&["Ariadne", "Theseus"], 1);
    let part = all.subgraph(&query);
    let parts = [crete.subgraph(&query), naxos.subgraph(&query)];
    assert_eq!(union(parts.clone()), part);
    assert_eq!(union([parts[1].clone(), parts[0].clone(), parts[1].clone()]), part);
    // The whole is being built if a part is.
    let growing = Subgraph { is_being_built: true, ..parts[1].clone() };
    assert_eq!(union([parts[0].clone(), growing]), Subgraph { is_being_built: true, ..part });
}

type Spellings = Vec<(Arc<str>, u32)>;

/// Contents of a graph, without its internal numbers.
#[derive(Debug, PartialEq)]
struct Canonical {
    counts: (usize, usize, usize, u64),
    whole: Subgraph,
    /// By key: names with their counts, and mentions by kind.
    namings: BTreeMap<String, (Spellings, [u32; 5])>,
    aliases: BTreeMap<String, Vec<String>>,
    near: Vec<Vec<(EntityKey, f32)>>,
    titles: Vec<Vec<DocumentId>>,
}

fn canonical(graph: &Graph) -> Canonical {
    let whole = graph.whole();
    let namings = graph
        .entities
        .iter()
        .map(|(_, node)| (node.key.to_string(), (node.spellings.clone(), node.kinds)));
    let namings = namings.collect();
    let aliases = graph.aliases.iter().map(|(alias, entities)| {
        let mut keys: Vec<String> = entities.iter().map(|id| graph.key(*id).to_owned()).collect();
        keys.sort();
        (alias.to_string(), keys)
    });
    let keys = || whole.entities.iter().map(|node: &EntityNode| &node.key);
    Canonical {
        counts: (graph.documents(), graph.entities(), graph.relations(), graph.segments),
        namings,
        aliases: aliases.collect(),
        near: keys().map(|key| graph.near(key)).collect(),
        titles: keys().map(|key| graph.titled(key)).collect(),
        whole,
    }
}

/// Returns documents with few names, so that they share many.
fn any_document(name: String) -> impl Strategy<Value = GraphDocument> {
    let name_of = "(@|)((the |Mr |)[A-C][a-b]( [D-E][a-b])?|[D-E][a-b])";
    let sentence = (name_of, "[x-z]", name_of).prop_map(|(h, r, t)| format!("{h} > {r} > {t}"));
    let segments = prop::collection::vec(prop::collection::vec(sentence, 0..4), 0..3);
    (segments, "([A-C][a-b]( [D-E][a-b])?|)").prop_map(move |(segments, title)| {
        let segments: Vec<Vec<&str>> =
            segments.iter().map(|told| told.iter().map(String::as_str).collect()).collect();
        let segments: Vec<&[&str]> = segments.iter().map(Vec::as_slice).collect();
        document(&name, &title, &segments)
    })
}

/// Returns inserts and, without a document, removals.
fn any_edits() -> impl Strategy<Value = Vec<(DocumentId, Option<GraphDocument>)>> {
    let edit = (0..4_u8).prop_flat_map(|number| {
        let name = format!("d{number}");
        let edited = prop::option::weighted(0.7, any_document(name.clone()));
        edited.prop_map(move |document| (id(&name), document))
    });
    prop::collection::vec(edit, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn after_any_edits_it_is_the_graph_of_what_is_left(edits in any_edits()) {
        let mut graph = Graph::default();
        let mut left: BTreeMap<DocumentId, GraphDocument> = BTreeMap::new();
        for (id, document) in edits {
            match document {
                Some(document) => {
                    graph.insert(document.clone());
                    left.insert(id, document);
                }
                None => prop_assert_eq!(graph.remove(&id), left.remove(&id).is_some()),
            }
        }
        let mut rebuilt = Graph::default();
        for document in left.into_values().rev() {
            rebuilt.insert(document);
        }
        prop_assert_eq!(canonical(&graph), canonical(&rebuilt));
    }

    #[test]
    fn without_documents_it_tells_what_it_would_tell_if_it_never_had_them(
        documents in prop::collection::vec(any_document("d".to_owned()), 1..5),
        hidden in prop::collection::vec(any::<bool>(), 5),
        text in "[A-E][ab]( [A-E][ab])?",
        (hops, most_entities, most_relations) in (0..4_u32, 1..9_usize, 0..9_usize),
    ) {
        let numbered = documents.into_iter().zip(0..).map(|(document, number)| {
            GraphDocument { document_id: id(&format!("d{number}")), ..document }
        });
        let all: Vec<GraphDocument> = numbered.collect();
        let (kept, hidden): (Vec<_>, Vec<_>) =
            all.iter().zip(hidden).partition(|(_, is_hidden)| !is_hidden);
        let kept: Vec<GraphDocument> = kept.into_iter().map(|(kept, _)| kept.clone()).collect();
        let (all, kept) = (graph(&all), graph(&kept));
        let view = all.without(hidden.into_iter().map(|(hidden, _)| &hidden.document_id));
        let places = (0..5).map(|n| place(&format!("d{n}"), 1, Span::new(0, 150))).collect();
        let entities = vec![key("Aa"), key("Ea")];
        let texts = vec![text];
        for query in [
            GraphQuery { texts, hops, most_entities, most_relations, ..GraphQuery::default() },
            GraphQuery { entities, hops, most_entities, most_relations, ..GraphQuery::default() },
            GraphQuery { places, hops, most_entities, most_relations, ..GraphQuery::default() },
        ] {
            prop_assert_eq!(view.subgraph(&query), kept.subgraph(&query));
        }
    }

    #[test]
    fn of_a_removed_document_nothing_is_left(
        document in any_document("kept".to_owned()),
        marked in any_document("Zymurgy".to_owned()),
    ) {
        let mut marked = marked;
        marked.title.push_str(" Zymurgy");
        for segment in &mut marked.segments {
            for entity in &mut segment.extraction.entities {
                entity.name.push_str(" Zymurgy");
            }
            for relation in &mut segment.extraction.relations {
                relation.text.push_str("zymurgy");
            }
        }
        let mut graph = graph(&[document, marked]);
        prop_assert!(graph.remove(&id("Zymurgy")));
        let held = format!("{graph:?}").to_lowercase();
        prop_assert!(!held.contains("zymurgy"), "{}", held);
    }

    #[test]
    fn a_part_is_within_its_limits(
        documents in (any_document("a".to_owned()), any_document("b".to_owned())),
        text in "[A-E][ab] [A-E][ab]",
        (hops, most_entities, most_relations) in (0..4_u32, 0..6_usize, 0..6_usize),
    ) {
        let graph = graph(&[documents.0, documents.1]);
        let (texts, places) = (vec![text], vec![place("a", 1, Span::new(0, 150))]);
        let entities = vec![key("Aa")];
        let query =
            GraphQuery { texts, entities, places, hops, most_entities, most_relations, ..GraphQuery::default() };
        let part = graph.subgraph(&query);
        prop_assert!(part.entities.len() <= most_entities);
        prop_assert!(part.relations.len() <= most_relations);
        let keys: Vec<&EntityKey> = part.entities.iter().map(|node| &node.key).collect();
        prop_assert!(keys.is_sorted());
        let ends = part.relations.iter().flat_map(|edge| [&edge.head, &edge.tail]);
        prop_assert!(part.seeds.iter().chain(ends).all(|key| keys.contains(&key)));
        let whole = graph.whole();
        prop_assert!(part.relations.iter().all(|edge| whole.relations.contains(edge)));
        prop_assert_eq!(graph.subgraph(&query), part);
    }
}
