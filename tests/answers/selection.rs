//! Tests of typed attributes: they are kept as they were sent, searches and lists are restricted by
//! conditions on them, and documents are forgotten by them.

use clew_client::{Client, QuestionRequest};
use clew_core::{AttributeValue, CorpusName, Document, Filter, Query, SearchMode};
use clew_proto::convert::query::filter_to_wire;
use clew_proto::ingest::v1 as ingest;
use clew_proto::query::v1::answer_response::Event;
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::client::{create_in_shards, document, id, remember, send};
use crate::harness::{Home, Server};

/// Returns twelve documents about the river, of years from 2014 on. Every third is a draft, and
/// the ids of the others say so as well.
fn documents() -> Vec<Document> {
    let document = |number: i64| {
        let is_draft = number % 3 == 0;
        let folder = if is_draft { "drafts" } else { "notes" };
        let text = format!("The boat number {number} lies on the bank of the river.");
        let mut document = document(&format!("{folder}/{number:02}"), text);
        document.title = format!("Boat {number}");
        let mut add = |name: &str, value: AttributeValue| {
            document.attributes.insert(name.to_owned().try_into().unwrap(), value);
        };
        add("year", (2014 + number).into());
        add("rating", AttributeValue::number(number as f64 / 2.0).unwrap());
        add("author", ["Ada", "Bohumil"][(number % 2) as usize].into());
        add("url", format!("https://example.org/boats/{number}").into());
        if is_draft {
            add("draft", true.into());
        }
        document
    };
    (0..12).map(document).collect()
}

fn of(condition: &str) -> Filter {
    Filter { condition: Some(condition.parse().unwrap()), ..Filter::default() }
}

async fn boats(home: &Home) -> (Server, Client, CorpusName) {
    let server = home.serve();
    let client = server.client().await;
    let name = create_in_shards(&client, "boats", 2).await;
    remember(&client, &name, documents()).await;
    (server, client, name)
}

async fn listed(client: &Client, request: ingest::ListDocumentsRequest) -> Vec<String> {
    let (mut ids, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ingest::ListDocumentsRequest {
            corpus: "boats".to_owned(),
            page_size: 2,
            page_token,
            ..request.clone()
        };
        let page = client.documents_page(request).await.unwrap();
        ids.extend(page.documents.into_iter().map(|state| state.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return ids;
        }
    }
}

fn ids(of: &[usize]) -> Vec<String> {
    let mut ids: Vec<String> = of.iter().map(|at| documents()[*at].id.to_string()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_keep_their_types_and_restrict_what_is_found_and_listed() {
    let home = Home::new();
    let (server, client, name) = boats(&home).await;
    // The same attributes again are no change, and another type of a value is one.
    let again = send(&client, &name, documents()).await;
    assert!(again.into_iter().all(|sent| sent.unwrap().unchanged));

    let cases: [(&str, &[usize]); 7] = [
        ("year >= 2023", &[9, 10, 11]),
        ("year > 2014.5 and year <= 2016", &[1, 2]),
        ("author = Ada and not draft = true and rating < 2", &[2]),
        ("draft exists and (year = 2014 or rating in (1.5, 3))", &[0, 3, 6]),
        ("author contains ohu and year not in (2015, 2017, 2019)", &[7, 9, 11]),
        ("draft != false and year < 2020", &[0, 3]),
        ("url = 'https://example.org/boats/5'", &[5]),
    ];
    for (condition, expected) in cases {
        for mode in SearchMode::ALL {
            let query = Query { mode, filter: of(condition), ..Query::new("the river", 50) };
            let found = client.search(&name, query).await.unwrap();
            let mut found: Vec<String> =
                found.evidence.into_iter().map(|item| item.document_id).collect();
            found.sort();
            found.dedup();
            assert_eq!(found, ids(expected), "{condition} {mode:?}");
        }
        let filter = Some(filter_to_wire(of(condition)));
        let request = ingest::ListDocumentsRequest { filter, ..Default::default() };
        assert_eq!(listed(&client, request).await, ids(expected), "{condition}");
    }
    let drafts = ingest::ListDocumentsRequest {
        id_prefix: "drafts/".to_owned(),
        filter: Some(filter_to_wire(of("year > 2016"))),
        ..Default::default()
    };
    assert_eq!(listed(&client, drafts).await, ids(&[3, 6, 9]));

    // Attributes come with what asks for them, and with nothing else.
    let query = Query { filter: of("year = 2018"), ..Query::new("the river", 5) };
    let found = client.search(&name, query.clone()).await.unwrap();
    assert!(found.evidence[0].attributes.is_empty());
    let found = client.search_with_attributes(&name, query.clone()).await.unwrap();
    let (stored, _) = client.document(&name, &id("notes/04")).await.unwrap();
    assert_eq!(found.evidence[0].attributes, stored.attributes);
    assert_eq!(stored.attributes.len(), 4);
    let asked = QuestionRequest {
        text: "What lies on the bank of the river?".to_owned(),
        filter: query.filter,
        with_attributes: true,
        ..QuestionRequest::default()
    };
    let events: Vec<_> = client.answer(&name, asked).await.unwrap().try_collect().await.unwrap();
    let answer = events.into_iter().find_map(|event| match event.event {
        Some(Event::Answer(answer)) => Some(answer),
        _ => None,
    });
    let citations = answer.unwrap().citations;
    assert!(!citations.is_empty());
    assert!(citations.iter().all(|citation| citation.attributes == stored.attributes));
    let page = ingest::ListDocumentsRequest {
        corpus: "boats".to_owned(),
        with_attributes: true,
        page_size: 1000,
        ..Default::default()
    };
    let page = client.documents_page(page).await.unwrap();
    assert_eq!((page.documents.len(), page.next_page_token.as_str()), (12, ""));
    let listed = page.documents.iter().find(|state| state.id == "notes/04").unwrap();
    assert_eq!((listed.title.as_str(), &listed.attributes), ("Boat 4", &stored.attributes));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_forgotten_by_a_condition_and_by_the_beginning_of_their_ids() {
    let home = Home::new();
    let (server, client, name) = boats(&home).await;
    let request = |condition: &str, id_prefix: &str, preview| ingest::ForgetDocumentsRequest {
        corpus: "boats".to_owned(),
        filter: (!condition.is_empty()).then(|| filter_to_wire(of(condition))),
        id_prefix: id_prefix.to_owned(),
        preview,
        ..Default::default()
    };
    let told = |receipt: &ingest::ForgetDocumentsResponse| -> Vec<String> {
        assert!(receipt.documents.iter().all(|document| document.found));
        assert_eq!(receipt.selected, receipt.documents.len() as u64);
        receipt.documents.iter().map(|document| document.document_id.clone()).collect()
    };
    let preview = client.forget_selected(request("year >= 2022", "notes/", true)).await.unwrap();
    assert_eq!(told(&preview), ids(&[8, 10, 11]));
    assert!(!preview.verified && preview.scan.is_none() && preview.forgotten_at.is_none());
    let all = || ingest::ListDocumentsRequest::default();
    assert_eq!(listed(&client, all()).await.len(), 12, "a preview changes nothing");

    let receipt = client.forget_selected(request("year >= 2022", "notes/", false)).await.unwrap();
    assert_eq!(told(&receipt), ids(&[8, 10, 11]));
    assert!(receipt.verified && receipt.documents.iter().all(|document| document.chunks > 0));
    let receipt = client.forget_selected(request("", "drafts/", false)).await.unwrap();
    assert_eq!(told(&receipt), ids(&[0, 3, 6, 9]));
    assert_eq!(listed(&client, all()).await, ids(&[1, 2, 4, 5, 7]));
    let nothing = client.forget_selected(request("", "drafts/", false)).await.unwrap();
    assert_eq!((nothing.selected, nothing.documents.len()), (0, 0));

    // Ids can be previewed as well, and tell which of them are there.
    let named = ingest::ForgetDocumentsRequest {
        document_ids: vec!["notes/07".to_owned(), "absent".to_owned()],
        ..request("", "", true)
    };
    let preview = client.forget_selected(named).await.unwrap();
    let found: Vec<bool> = preview.documents.iter().map(|document| document.found).collect();
    assert_eq!((found.as_slice(), preview.selected), (&[true, false][..], 2));
    assert!(client.document(&name, &id("notes/07")).await.is_ok());
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_selects_by_conditions_and_shows_attributes() {
    let home = Home::new();
    let lines = (0..6).map(|number| {
        let line = json!({
            "id": format!("n{number}"),
            "text": format!("The boat number {number} lies on the bank of the river."),
            "year": 2014 + number,
            "rating": f64::from(number) / 2.0,
            "draft": number % 2 == 0,
            "author": "Ada",
        });
        format!("{line}\n")
    });
    let file = home.write("boats.jsonl", lines.collect::<String>()).display().to_string();
    let server = home.serve();
    let run = |words: &[&str]| home.run_at(&server, words);
    assert_eq!(run(&["ingest", "--corpus", "boats", &file, "--json"]).code, Some(0));

    let condition = "year >= 2016 and not draft = true";
    let search = [
        "search",
        "--corpus",
        "boats",
        "the river",
        "--where",
        condition,
        "--attributes",
        "--json",
    ];
    let found = run(&search).done();
    let found = found["evidence"].as_array().unwrap();
    let mut told: Vec<&Value> = found.iter().map(|item| &item["attributes"]).collect();
    told.sort_by_key(|attributes| attributes["year"].as_i64());
    let expected = [3, 5].map(|number| {
        let (year, rating) = (2014 + number, f64::from(number) / 2.0);
        json!({ "year": year, "rating": rating, "draft": false, "author": "Ada" })
    });
    assert_eq!(told, expected.iter().collect::<Vec<_>>());

    let list = ["list", "--corpus", "boats", "--prefix", "n", "--where", condition, "--json"];
    let listed = run(&list).done();
    let listed: Vec<&str> = listed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["document_id"].as_str().unwrap())
        .collect();
    assert_eq!(listed, ["n3", "n5"]);
    let few = run(&["list", "--corpus", "boats", "--limit", "4", "--json"]).done();
    assert_eq!((few["documents"].as_array().unwrap().len(), &few["more"]), (4, &json!(true)));

    let forget = ["forget", "--corpus", "boats", "--where", condition, "--json"];
    let preview = run(&[&forget[..], &["--preview"]].concat()).done();
    assert_eq!(preview, json!({ "selected": 2, "document_ids": ["n3", "n5"] }));
    let receipt = run(&forget).done();
    assert_eq!((&receipt["selected"], &receipt["verified"]), (&json!(2), &json!(true)));
    let left = run(&["list", "--corpus", "boats", "--json"]).done();
    assert_eq!(left["documents"].as_array().unwrap().len(), 4);

    for bad in [
        &["forget", "--corpus", "boats"][..],
        &["forget", "--corpus", "boats", "--document", "n0", "--where", "year = 1"],
        &["search", "--corpus", "boats", "river", "--where", "year >"],
        &["list", "--corpus", "boats", "--where", "year 2020"],
    ] {
        assert_ne!(run(bad).code, Some(0), "{bad:?}");
    }
    assert!(server.terminate().success());
}
