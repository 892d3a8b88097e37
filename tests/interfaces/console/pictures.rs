//! Tests of what the console draws and opens: the graph, the tree, the steps of an answer and the
//! versions of a document.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use clew_client::Client;
use clew_core::{Document, ErrorKind, SourceVersion, StructureSettings};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::from_status;
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::memory::v1::{GraphQuery, ReadGraphRequest, ReadTreeRequest};

use super::{Browser, HOSTILE, Page};
use crate::client::{corpus, create, document, remember, structured, text_of};
use crate::harness::Home;
use crate::tales::tales;

/// Entities that the page of a graph shows at most.
const MOST_ENTITIES: usize = 150;
/// Corpora of one page of the overview.
const CORPORA: usize = 50;

/// Returns the addresses of a page that begin so, without the escapes of markup.
fn links<'a>(page: &'a Page, beginning: &'a str) -> impl Iterator<Item = String> + 'a {
    let links = page.body.split("href=\"").skip(1).filter_map(|link| link.split('"').next());
    links.map(|link| link.replace("&amp;", "&")).filter(move |link| link.starts_with(beginning))
}

/// Returns the marked text of a document's page, without the escapes of markup.
fn marked(page: &Page) -> String {
    let pieces = page.body.split("<mark").skip(1);
    let piece = |piece: &str| {
        let (_, rest) = piece.split_once('>').unwrap();
        rest.split_once("</mark>").unwrap().0.to_owned()
    };
    let text: String = pieces.map(piece).collect();
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Returns the value of a field of an address.
fn field<'a>(address: &'a str, name: &str) -> &'a str {
    let query = address.split_once('?').unwrap().1.split('#').next().unwrap();
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find_map(|(named, value)| (named == name).then_some(value)).unwrap()
}

/// Follows a link to a place of a document, and checks that what is marked is what is stored.
async fn follow(browser: &Browser<'_>, client: &Client, link: &str) -> String {
    let page = browser.get(link.split('#').next().unwrap());
    assert_eq!(page.status, 200, "{link}: {page:?}");
    let id = field(link, "id").replace("%2F", "/").replace('+', " ");
    let text = text_of(client, &corpus("notes"), &id.parse().unwrap()).await;
    let [start, end] = ["start", "end"].map(|end| field(link, end).parse::<usize>().unwrap());
    let marked = marked(&page);
    assert_eq!(marked, text[start..end], "{link}");
    marked
}

async fn create_with_small_segments(client: &Client, max_children: u32) {
    let new = NewCorpus {
        name: corpus("notes"),
        shards: 1,
        chunking: None,
        structure: Some(StructureSettings { segment_tokens: 64, max_children, summary_bytes: 200 }),
        retention_days: None,
        memory: None,
        chat: None,
    };
    client.create_corpus(new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_shown_around_an_entity_with_the_sentences_that_say_so() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let browser = Browser::of(&home, &server);
    let notes = create(&client, "notes").await;
    let empty = browser.get("/corpora/notes/graph");
    assert!(empty.status == 200 && empty.has("no entity yet"), "{empty:?}");
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;

    let first = browser.get("/corpora/notes/graph");
    assert!(first.has("To begin with") && first.has("<bdi>Theseus</bdi>"), "{first:?}");
    let around = browser.get("/corpora/notes/graph?q=Who+was+Theseus%3F");
    for part in [
        "Around <bdi>Theseus</bdi>",
        "role=\"group\"",
        "<title>Theseus, ",
        "killed",
        "<blockquote dir=\"auto\">Theseus killed the Minotaur.</blockquote>",
        "href=\"#relation-0\"",
        "id=\"relation-0\"",
    ] {
        assert!(around.has(part), "no {part}: {around:?}");
    }
    let places: Vec<String> = links(&around, "/corpora/notes/document?id=crete").collect();
    assert!(places.len() >= 3, "{places:?}");
    let mut sentences = Vec::new();
    for place in &places {
        sentences.push(follow(&browser, &client, place).await);
    }
    assert!(sentences.iter().any(|said| said == "Theseus killed the Minotaur."), "{sentences:?}");
    // Every entity of the picture leads to what is around it, and is in the list.
    let minotaur = "/corpora/notes/graph?entity=minotaur";
    assert_eq!(links(&around, minotaur).count(), 2, "{around:?}");
    let entity = browser.get(minotaur);
    assert!(entity.has("Around <bdi>Minotaur</bdi>") && entity.has("value=\"Minotaur\""));
    assert!(!entity.has("further away") && !entity.has("Naxos"), "{entity:?}");
    let further = browser.get(&format!("{minotaur}&hops=2"));
    assert!(further.has("further away") && further.has("Naxos"), "{further:?}");
    let place = browser.get("/corpora/notes/document?id=crete");
    let there = links(&place, "/corpora/notes/graph?id=crete").next().unwrap();
    let there = browser.get(&there);
    assert!(there.has("Entities of a part of") && there.has("<title>Minos, "), "{there:?}");
    let unknown = browser.get("/corpora/notes/graph?q=Daedalus");
    assert!(unknown.status == 200 && unknown.has("knows nothing that this names"), "{unknown:?}");

    client
        .create_corpus(NewCorpus {
            name: corpus("flat"),
            shards: 1,
            chunking: None,
            structure: None,
            retention_days: None,
            memory: None,
            chat: None,
        })
        .await
        .unwrap();
    for page in ["graph", "graph?q=Theseus", "tree"] {
        let page = browser.get(&format!("/corpora/flat/{page}"));
        assert!(page.status == 200 && page.has("clew corpus create NAME"), "{page:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_is_too_large_for_a_page_says_what_it_leaves_out() {
    const NEIGHBOURS: u8 = 200;
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let letter = |number: u8| char::from(b'a' + number);
    let name =
        |number: u8| format!("{}or{}", letter(number / 26).to_uppercase(), letter(number % 26));
    let said = |number: u8| format!("Hubert visited {}. ", name(number));
    remember(&client, &notes, vec![document("d", (0..NEIGHBOURS).map(said).collect::<String>())])
        .await;
    structured(&client, &notes).await;
    let browser = Browser::of(&home, &server);
    let page = browser.get("/corpora/notes/graph?q=Hubert");
    // Each is in the picture and in the list.
    let shown = links(&page, "/corpora/notes/graph?entity=").count();
    assert_eq!(shown, 2 * MOST_ENTITIES, "{page:?}");
    let left_out = usize::from(NEIGHBOURS) + 1 - MOST_ENTITIES;
    assert!(page.has(&format!("<strong>{left_out} more</strong>")), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn relations_come_with_the_text_that_states_them_if_it_is_asked_for() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    let ask = async |with_quotes, most_relations| {
        let query = GraphQuery {
            texts: vec!["Theseus".to_owned()],
            hops: 2,
            most_relations,
            ..GraphQuery::default()
        };
        let request =
            ReadGraphRequest { corpus: notes.to_string(), query: Some(query), with_quotes };
        let read = MemoryServiceClient::new(client.services()).read_graph(request).await;
        read.map(|read| read.into_inner().graph.unwrap().relations)
    };
    let quoted = ask(true, 100).await.unwrap();
    assert!(quoted.len() > 3, "{quoted:?}");
    for relation in &quoted {
        let id = &relation.segment.as_ref().unwrap().document_id;
        let text = text_of(&client, &notes, &id.parse().unwrap()).await;
        let span = relation.evidence.unwrap();
        assert_eq!(relation.quote, text[span.start as usize..span.end as usize]);
    }
    assert!(ask(false, 1001).await.unwrap().iter().all(|relation| relation.quote.is_empty()));
    let refused = from_status(&ask(true, 1001).await.unwrap_err());
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(refused.fields_at_fault(), ["query.most_relations"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_opened_level_by_level_down_to_the_bytes() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = corpus("notes");
    create_with_small_segments(&client, 3).await;
    let browser = Browser::of(&home, &server);
    assert!(browser.get("/corpora/notes/tree").has("No tree is built yet"));
    let sentence = |n: u32| format!("Ship {n} sailed to port {n} with a load of grain and oil. ");
    let long: String = (0..60).map(sentence).collect();
    let mut documents = vec![Document { title: "Ships".to_owned(), ..document("a/b c", long) }];
    documents.extend((0..4).map(|n| document(&format!("tale-{n}"), sentence(n))));
    remember(&client, &notes, documents).await;
    structured(&client, &notes).await;

    // From the root of the document to its first leaf.
    let of_document = browser.get("/corpora/notes/document?id=a%2Fb+c");
    let mut at = links(&of_document, "/corpora/notes/tree?id=").next().unwrap();
    let mut levels = 0;
    let leaf = loop {
        let page = browser.get(at.split('#').next().unwrap());
        assert!(page.status == 200 && page.has("Ships, bytes 0 to "), "{at}: {page:?}");
        if let Some(leaf) = links(&page, "/corpora/notes/document?id=a%2Fb+c&version=").next() {
            break leaf;
        }
        levels += 1;
        assert!(levels < 10, "{page:?}");
        // What is open is closed by its link, so the way down is the longest.
        let down = links(&page, "/corpora/notes/tree?id=").filter(|link| link.ends_with("#open"));
        at = down.min_by_key(|link| Reverse(link.matches("open=").count())).unwrap();
    };
    assert!(levels >= 2, "{levels} levels");
    assert!(follow(&browser, &client, &leaf).await.starts_with("Ship 0 sailed"));

    // The tree of the corpus leads to all documents, and each page is small.
    let mut reached = BTreeSet::new();
    let mut open = vec!["/corpora/notes/tree".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(at) = open.pop() {
        if !seen.insert(at.clone()) {
            continue;
        }
        let page = browser.get(at.split('#').next().unwrap());
        assert!(page.status == 200 && page.body.len() < 100_000, "{at}: {page:?}");
        let leaves = links(&page, "/corpora/notes/document?id=");
        reached.extend(leaves.map(|link| field(&link, "id").to_owned()));
        open.extend(
            links(&page, "/corpora/notes/tree?open=").filter(|link| link.ends_with("#open")),
        );
    }
    let all = ["a%2Fb+c", "tale-0", "tale-1", "tale-2", "tale-3"];
    assert_eq!(reached.iter().map(String::as_str).collect::<Vec<_>>(), all);

    let changed = browser.get("/corpora/notes/tree?id=tale-0&open=document.1.7.0.tale-0");
    assert!(changed.status == 200 && changed.has("has changed since"), "{changed:?}");
    assert_eq!(browser.get("/corpora/notes/tree?open=root").status, 400);
    let deep = "&open=upper.0.00000000000000000000000000000000".repeat(17);
    assert_eq!(browser.get(&format!("/corpora/notes/tree?x=1{deep}")).status, 400);
    let both = ReadTreeRequest {
        corpus: notes.to_string(),
        document_id: "tale-0".to_owned(),
        parent: Some(Default::default()),
    };
    let refused = MemoryServiceClient::new(client.services()).read_tree(both).await.unwrap_err();
    assert_eq!(from_status(&refused).fields_at_fault(), ["document_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_drawn_and_say_no_more_than_the_list_beside_them() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    let browser = Browser::of(&home, &server);
    for (strategy, touches) in [
        ("direct", "Searched"),
        ("memwalker", "Entered"),
        ("qrmem-reflect-offline", "Chose entities"),
    ] {
        let question = "/corpora/notes/ask?q=Who+killed+the+Minotaur%3F";
        let page = browser.get(&format!("{question}&strategy={strategy}"));
        let name = format!("Picture of the steps by {strategy}");
        assert!(page.has(&name) && page.has(touches), "{strategy}: {page:?}");
        let (_, drawn) = page.body.split_once("<svg role=\"img\"").unwrap();
        let (drawn, list) = drawn.split_once("<ol class=\"steps\">").unwrap();
        let rows = drawn.matches("class=\"bar\"").count();
        assert!(rows > 1 && list.matches("<li><strong>").count() == rows, "{strategy}: {page:?}");
        assert!(list.matches("after ").count() >= rows, "{strategy}: {page:?}");
        let things = drawn.split("class=\"thing\"").skip(1).map(|thing| {
            thing.split_once('>').unwrap().1.split_once('<').unwrap().0.trim_end_matches('…')
        });
        let mut count = 0;
        for thing in things {
            assert!(list.contains(thing), "{strategy}: the list does not say `{thing}`");
            count += 1;
        }
        assert!(count > 0 || strategy == "direct", "{strategy}: {page:?}");
    }
    let page = browser.get("/corpora/notes/ask?q=Who+killed+the+Minotaur%3F&strategy=direct");
    for place in links(&page, "/corpora/notes/document?id=crete") {
        follow(&browser, &client, &place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_summaries_do_nothing_in_pictures() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let text = format!("Theseus met Ariadne <script>alert(1)</script> in Naxos. {HOSTILE}");
    let title = "<script>alert(2)</script>".to_owned();
    let hostile = Document { title, ..document("<script>alert(3)</script>", text) };
    remember(&client, &notes, vec![hostile]).await;
    structured(&client, &notes).await;
    let browser = Browser::of(&home, &server);
    for path in [
        "/corpora/notes/graph?q=Theseus",
        "/corpora/notes/graph?q=%3Cscript%3E",
        "/corpora/notes/tree",
        "/corpora/notes/tree?id=%3Cscript%3Ealert(3)%3C%2Fscript%3E",
        "/corpora/notes/ask?q=Where+did+Theseus+meet+Ariadne%3F&strategy=memwalker",
        "/corpora/notes/ask?q=Where+did+Theseus+meet+Ariadne%3F",
    ] {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(page.has("&lt;script"), "{path}: {page:?}");
        assert_eq!(page.body.matches("<script").count(), 1, "{path}: {page:?}");
        assert!(!page.has("<img") && !page.has("<b>") && !page.has(" style="), "{path}: {page:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_tells_its_versions() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let browser = Browser::of(&home, &server);
    for (number, text) in [(41, "The plan is to keep bees."), (42, "The plan is to sell honey.")] {
        let sent = Document { source_version: Some(SourceVersion(number)), ..document("d", text) };
        remember(&client, &notes, vec![sent]).await;
    }
    let state = client.document(&notes, &"d".parse().unwrap()).await.unwrap().1;
    let page = browser.get("/corpora/notes/document?id=d");
    let (_, versions) = page.body.split_once("<h2>Versions</h2>").unwrap();
    let (versions, _) = versions.split_once("<h2>Text</h2>").unwrap();
    assert_eq!(versions.matches("<tr>").count(), 2, "the head, and one version: {versions}");
    for part in [format!("<th scope=\"row\">{}</th>", state.version), "<td>42</td>".to_owned()] {
        assert!(versions.contains(&part), "no {part}: {versions}");
    }
    assert!(versions.contains("searchable") && versions.contains("26 bytes"), "{versions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_has_a_page_for_each_fifty_corpora() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let made = (0..=CORPORA).map(|number| {
        let client = &client;
        async move { create(client, &format!("c{number:02}")).await }
    });
    futures::future::join_all(made).await;
    let browser = Browser::of(&home, &server);
    let first = browser.get("/");
    let of_corpora = |page: &Page| links(page, "/corpora/").collect::<Vec<String>>();
    assert_eq!(of_corpora(&first).len(), CORPORA, "{first:?}");
    assert!(!first.has("First page"), "{first:?}");
    let next = links(&first, "/?page=").next().unwrap();
    let second = browser.get(&next);
    assert_eq!(of_corpora(&second), [format!("/corpora/c{CORPORA}")], "{second:?}");
    assert!(second.has("First page") && !second.has("Next page"), "{second:?}");
}
