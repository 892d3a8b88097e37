//! The probes of keys, tenants, labels and quotas, made by agents.

use clew_core::{Document, Labels};
use serde_json::json;

use super::world::World;
use crate::client::{create, document, remember, structured};
use crate::harness::Server;
use crate::mcp::READING;
use crate::mcp::agent::Agent;

/// Starts a server in plain text on this machine that asks for keys.
fn serve(world: &World) -> Server {
    let mut command = world.home.serve_command();
    command.env("CLEW_AUTH__KEYS_FILE", world.path("keys.toml")).env("CLEW_MCP__FORGET", "true");
    // The library of the protocol logs whole messages; keys are in none of them.
    command.env("CLEW_LOG", "debug,rmcp=trace");
    Server::start(command)
}

fn agent(world: &World, server: &Server, key: &str) -> Agent {
    Agent::at(server, "/mcp").with_key(world.keys[key].reveal())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_valid_key_is_told_that_it_needs_one() {
    let world = World::new();
    let server = serve(&world);
    let nobody = Agent::at(&server, "/mcp");
    let stranger = nobody.clone().with_key("clew_0123456789");
    let ended = agent(&world, &server, "acme-ended");
    for agent in [nobody, stranger, ended] {
        let search = json!({ "name": "search", "arguments": { "query": "x", "corpus": "notes" } });
        for (method, parameters) in [
            ("server/discover", json!({})),
            ("tools/list", json!({})),
            ("tools/call", search.clone()),
        ] {
            let reply = agent.ask(method, parameters);
            assert_eq!(reply.status, 401, "{method}: {reply:?}");
            let challenge = reply.header("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Bearer"), "{reply:?}");
            assert_eq!(reply.json()["reason"], "KEY_REFUSED", "{reply:?}");
        }
    }
    let acme = agent(&world, &server, "acme");
    assert_eq!(acme.call("list_corpora", json!({}))["corpora"], json!([]));
    for key in world.keys.values() {
        assert!(!server.log().contains(&key.reveal()["clew_".len()..]), "a key was logged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_does_what_its_scopes_open() {
    let world = World::new();
    let server = serve(&world);
    let owner = plain_client(&world, &server, "acme").await;
    let notes = create(&owner, "notes").await;
    remember(&owner, &notes, vec![document("bees", "Bees swarm in May.")]).await;

    let reader = agent(&world, &server, "acme-reader");
    assert_eq!(reader.tools(), READING);
    assert_eq!(reader.call("search", json!({ "query": "bees" }))["results"][0]["id"], "bees");
    for (tool, arguments) in
        [("remember", json!({ "text": "Mine now." })), ("forget", json!({ "about": "bees" }))]
    {
        let told = reader.fail(tool, arguments);
        assert!(told.starts_with("SCOPE_MISSING") && told.contains("`write`"), "{told}");
    }
    // A reader sees what would be forgotten, and forgets nothing.
    let preview = reader.call("forget", json!({ "ids": ["bees"] }));
    let confirmed = json!({ "ids": ["bees"], "confirm": preview["confirm"] });
    assert!(reader.fail("forget", confirmed).starts_with("SCOPE_MISSING"));

    let writer = agent(&world, &server, "acme-writer");
    assert_eq!(writer.tools(), Vec::<String>::new());
    let told = writer.fail("search", json!({ "query": "bees", "corpus": "notes" }));
    assert!(told.starts_with("SCOPE_MISSING"), "{told}");
    let told = writer.fail("remember", json!({ "text": "Mine now.", "corpus": "notes" }));
    assert!(told.starts_with("SCOPE_MISSING"), "{told}");

    let both = agent(&world, &server, "acme");
    assert_eq!(both.tools().len(), 8);
    assert_eq!(owner.corpus(&notes).await.unwrap().counts.unwrap().documents, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_tells_or_changes_anything_of_another_tenant() {
    let world = World::new();
    let server = serve(&world);
    let owner = plain_client(&world, &server, "acme").await;
    let notes = create(&owner, "notes").await;
    let secret = document("secret", "The zanzibar plan of Quetzal is to keep bees.");
    remember(&owner, &notes, vec![secret]).await;
    let acme = agent(&world, &server, "acme");
    let kept =
        acme.call("remember", json!({ "text": "I met Quetzal in Zanzibar.", "user": "ann" }));
    let before = owner.corpus(&notes).await.unwrap().counts.unwrap();

    let other = agent(&world, &server, "other");
    assert_eq!(other.call("list_corpora", json!({}))["corpora"], json!([]));
    let tells_nothing = |told: &str| {
        let told = told.to_lowercase();
        assert!(!told.contains("zanzibar") && !told.contains("quetzal"), "{told}");
    };
    for corpus in ["notes", "acme.notes"] {
        for (tool, mut arguments) in [
            ("search", json!({ "query": "bees" })),
            ("fetch", json!({ "id": "secret" })),
            ("fetch", json!({ "id": kept["id"] })),
            ("ask", json!({ "question": "Where are the bees?" })),
            ("recall", json!({ "question": "Whom did I meet?", "user": "ann" })),
            ("explore_graph", json!({ "entity": "bees" })),
            ("remember", json!({ "text": "Mine now.", "user": "ann" })),
            ("forget", json!({ "about": "bees", "user": "ann" })),
            ("forget", json!({ "ids": ["secret"], "confirm": "0123456789abcdef" })),
        ] {
            arguments["corpus"] = json!(corpus);
            let told = other.fail(tool, arguments);
            let expected = ["NOT_FOUND", "INVALID_INPUT"];
            assert!(expected.iter().any(|reason| told.starts_with(reason)), "{tool}: {told}");
            tells_nothing(&told);
        }
        let pinned = Agent::at(&server, &format!("/mcp/{corpus}"));
        let pinned = pinned.with_key(world.keys["other"].reveal());
        tells_nothing(&pinned.fail("search", json!({ "query": "bees" })));
        tells_nothing(&pinned.fail("list_corpora", json!({})));
    }
    assert_eq!(owner.corpus(&notes).await.unwrap().counts.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_what_needs_only_labels_that_it_holds() {
    let world = World::new();
    let server = serve(&world);
    let owner = plain_client(&world, &server, "acme").await;
    let notes = create(&owner, "notes").await;
    let labels = Labels::parse(["hr"]).unwrap();
    let text = "The gardener Quetzal earned the zanzibar salary in Lisbon.";
    let salaries = Document { labels, ..document("salaries", text) };
    let personnel = plain_client(&world, &server, "acme-hr").await;
    remember(&personnel, &notes, vec![salaries]).await;
    structured(&personnel, &notes).await;
    let (search, ids) = (json!({ "query": "zanzibar" }), json!({ "ids": ["salaries"] }));
    let ask = json!({ "question": "Who earned the zanzibar salary?" });
    let explore = json!({ "entity": "Quetzal" });

    let holder = agent(&world, &server, "acme-hr");
    assert_eq!(holder.call("search", search.clone())["results"][0]["id"], "salaries");
    assert_eq!(holder.call("fetch", json!({ "id": "salaries" }))["text"], text);
    assert_eq!(holder.call("ask", ask.clone())["citations"][0]["id"], "salaries");
    assert_eq!(holder.call("explore_graph", explore.clone())["relations"][0]["id"], "salaries");
    assert_eq!(holder.call("list_corpora", json!({}))["corpora"][0]["documents"], 1);
    let seen = holder.call("forget", ids.clone());
    assert_eq!(seen["items"][0]["text"], text);

    let other = agent(&world, &server, "acme");
    assert_eq!(other.call("search", search)["results"], json!([]));
    assert!(other.fail("fetch", json!({ "id": "salaries" })).starts_with("NOT_FOUND"));
    let answer = other.call("ask", ask);
    assert_eq!((&answer["outcome"], &answer["citations"]), (&json!("not_in_memory"), &json!([])));
    let graph = other.call("explore_graph", explore);
    assert_eq!((&graph["entities"], &graph["relations"]), (&json!([]), &json!([])));
    assert_eq!(other.call("list_corpora", json!({}))["corpora"][0]["documents"], 0);
    let preview = other.call("forget", ids);
    assert_eq!((&preview["items"], &preview["not_found"]), (&json!([]), &json!(["salaries"])));
    // The word of somebody who sees the document helps nobody who does not.
    let confirmed = json!({ "ids": ["salaries"], "confirm": seen["confirm"] });
    assert!(other.fail("forget", confirmed).starts_with("INVALID_INPUT"));
    assert_eq!(holder.call("fetch", json!({ "id": "salaries" }))["id"], "salaries");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_used_up_a_quota_is_told_when_to_go_on() {
    let quota = "[[tenant]]\nname = 'other'\nrequests_per_second = 0.2\nburst_secs = 50.0\n";
    let world = World::with(quota);
    let server = serve(&world);
    let (acme, other) = (agent(&world, &server, "acme"), agent(&world, &server, "other"));
    // The quota opens ten calls and one more every five seconds.
    let refused = (0..30).find_map(|_| {
        let call = json!({ "name": "list_corpora", "arguments": {} });
        let result = other.result("tools/call", call);
        (result["isError"] == true)
            .then(|| result["content"][0]["text"].as_str().unwrap().to_owned())
    });
    let told = refused.expect("the quota has an end");
    assert!(told.starts_with("QUOTA_SPENT") && told.contains("Try again in"), "{told}");
    for _ in 0..20 {
        acme.call("list_corpora", json!({}));
    }
}

async fn plain_client(world: &World, server: &Server, key: &str) -> clew_client::Client {
    let api_key = Some(world.keys[key].reveal().to_owned());
    let credentials = clew_client::Credentials { api_key, ..Default::default() };
    let patience = crate::harness::PATIENCE;
    clew_client::Client::connect_as(&credentials, &server.endpoint, patience).await.unwrap()
}
