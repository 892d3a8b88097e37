//! Tests of the console on real servers: what each page answers, who may see it, and what it does
//! with hostile texts. Chromium looks at every page by `tests/console/pages.py`.

mod pictures;

use std::process::Command;

use clew_auth::ApiKey;
use clew_client::{Client, Credentials};
use clew_core::{Document, Labels};
use clew_proto::Timestamp;
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::chat::v1::{self as wire, Role};

use crate::client::{accept, corpus, create, document, id, remember};
use crate::harness::{Home, PATIENCE, Ran, Server};
use crate::http::curl;
use crate::other_models::published_model;
use crate::processes::Cluster;
use crate::scripts::python;
use crate::security::World;

/// A text that does something wherever it is taken for markup, for a link or for a shell.
const HOSTILE: &str = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\
     </textarea></div>&lt;b&gt; javascript:alert(1) \u{202e}desrever \u{0}\r\n'; rm -rf / #";

/// Bytes of a text that is one line and one word.
const LINE_BYTES: usize = 1 << 20;

/// Every page of a corpus, and the others.
const PAGES: [&str; 13] = [
    "/",
    "/connect",
    "/corpora/notes",
    "/corpora/notes/documents",
    "/corpora/notes/search?q=bees&beside=dense-exact",
    "/corpora/notes/ask?q=What+is+sold+in+spring%3F",
    "/corpora/notes/graph",
    "/corpora/notes/graph?q=Bees",
    "/corpora/notes/tree",
    "/corpora/notes/users",
    "/corpora/notes/failures",
    "/corpora/notes/runs",
    "/corpora/notes/document?id=d1",
];

/// Response to a request of a browser.
#[derive(Debug)]
struct Page {
    status: u16,
    headers: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(named, value)| named.eq_ignore_ascii_case(name).then_some(value.trim()))
    }

    fn has(&self, text: &str) -> bool {
        self.body.contains(text)
    }
}

/// A browser without a script: it keeps a cookie and sends forms as its own pages do.
struct Browser<'a> {
    home: &'a Home,
    origin: String,
    cookie: Option<String>,
}

impl<'a> Browser<'a> {
    fn of(home: &'a Home, server: &Server) -> Self {
        Self { home, origin: server.http(), cookie: None }
    }

    fn ask(&self, path: &str, more: &[&str]) -> Page {
        let url = format!("{}{path}", self.origin);
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}"));
        let mut arguments = vec![url.as_str()];
        arguments.extend(more);
        if let Some(cookie) = &cookie {
            arguments.extend(["--header", cookie]);
        }
        if self.home.path("ca.crt").exists() {
            arguments.extend(["--cacert", "ca.crt"]);
        }
        let ran = Ran::of(curl::command(self.home, &arguments));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let (head, body) = ran.stdout.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{ran:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Page { status, headers: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Page {
        self.ask(path, &[])
    }

    fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = format!("Origin: {}", self.origin);
        self.post_from(&["--header", &origin], path, fields)
    }

    fn post_from(&self, more: &[&str], path: &str, fields: &[(&str, &str)]) -> Page {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut arguments = vec!["--request", "POST", "--data", ""];
        for field in &fields {
            arguments.extend(["--data-urlencode", field]);
        }
        arguments.extend(more);
        self.ask(path, &arguments)
    }

    /// Logs in with a key, and keeps the cookie.
    fn log_in(&mut self, key: &ApiKey) -> Page {
        let page = self.post("/login", &[("key", key.reveal())]);
        let set = page.header("set-cookie").map(ToOwned::to_owned);
        self.cookie = set.and_then(|set| Some(set.split_once(';')?.0.to_owned()));
        page
    }
}

/// Stores turns of a user's only session.
async fn tell(client: &Client, user: &str, turns: &[(Role, &str)]) {
    let turn = |(number, (role, text)): (u32, &(Role, &str))| wire::Turn {
        number,
        role: (*role).into(),
        text: (*text).to_owned(),
        time: Some(Timestamp { seconds: 1_700_000_000 + i64::from(number), nanos: 0 }),
        ..Default::default()
    };
    let request = wire::AppendTurnsRequest {
        corpus: "notes".to_owned(),
        user: user.to_owned(),
        session: "monday".to_owned(),
        turns: (0..).zip(turns).map(turn).collect(),
        ..Default::default()
    };
    ChatServiceClient::new(client.services()).append_turns(request).await.unwrap();
}

async fn fill(client: &Client) {
    let notes = create(client, "notes").await;
    let texts = ["The plan is to keep bees.", "Honey is sold in spring."];
    let documents = texts.iter().enumerate().map(|(n, text)| document(&format!("d{n}"), *text));
    remember(client, &notes, documents.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_there_without_a_login_where_no_key_is_needed() {
    let home = Home::new();
    let server = home.serve();
    fill(&server.client().await).await;
    let browser = Browser::of(&home, &server);
    for path in PAGES {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{path}");
        for inline in [" style=", "<style", " onclick", "javascript:", "Log out", "/cluster"] {
            assert!(!page.has(inline), "{path} has `{inline}`");
        }
    }
    assert!(browser.get("/").has("href=\"/corpora/notes\""));
    let searched = browser.get("/corpora/notes/search?q=bees&mode=sparse&beside=hybrid");
    for part in ["The plan is to keep bees.", "BM25", "cosine", "same place beside", "<meter"] {
        assert!(searched.has(part), "no {part}: {searched:?}");
    }
    let answered = browser.get("/corpora/notes/ask?q=What+is+sold+in+spring%3F");
    for part in ["Searched", "tokens embedded", "curl --no-buffer", "clew.Client()"] {
        assert!(answered.has(part), "no {part}: {answered:?}");
    }
    // What the listener has besides is still there, and so is its answer to other paths.
    assert_eq!(browser.get("/healthz").body, "ok\n");
    assert_eq!(browser.get("/v1/models").header("content-type"), Some("application/json"));
    assert_eq!(browser.get("/nothing").status, 404);
    let style = browser.get("/assets/style.css");
    let tag = format!("If-None-Match: {}", style.header("etag").unwrap());
    assert_eq!(browser.ask("/assets/style.css", &["--header", &tag]).status, 304);
    for (path, status) in [
        ("/corpora/other", 404),
        ("/corpora/no%20name", 400),
        ("/corpora/notes/document?id=other", 404),
        ("/corpora/notes/documents?state=lost", 400),
        ("/corpora/notes/search?q=bees&mode=loud", 400),
    ] {
        let page = browser.get(path);
        assert_eq!(
            (page.status, page.has("class=\"problem\"")),
            (status, true),
            "{path}: {page:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_added_shown_and_forgotten_by_forms() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let browser = Browser::of(&home, &server);
    let made = browser.post("/", &[("name", "notes")]);
    assert_eq!((made.status, made.header("location")), (303, Some("/corpora/notes")), "{made:?}");

    let fields = [("id", "a/b c.md"), ("title", "Bees"), ("text", "The plan is\r\nto keep bees.")];
    let added = browser.post("/corpora/notes/documents", &fields);
    let to = "/corpora/notes/document?id=a%2Fb+c.md";
    assert_eq!((added.status, added.header("location")), (303, Some(to)), "{added:?}");
    let again = browser.post("/corpora/notes/documents", &fields[..1]);
    assert_eq!(again.status, 400, "without a text: {again:?}");
    let stored = client.document(&corpus("notes"), &id("a/b c.md")).await.unwrap();
    assert_eq!(stored.0.text.to_vec(), b"The plan is\nto keep bees.");
    let version = stored.1.version;
    remember(&client, &corpus("notes"), vec![document("d1", "Honey is sold in spring.")]).await;

    let shown = browser.get(to);
    assert!(shown.has("<span class=\"band even\">The plan is\nto keep bees.</span>"), "{shown:?}");
    let marked = browser.get(&format!("{to}&version={version}&start=4&end=8#cited"));
    let mark = "<mark class=\"band even\" id=\"cited\">plan</mark>";
    assert!(marked.has(mark), "{marked:?}");
    let old = browser.get(&format!("{to}&version=7&start=4&end=8"));
    assert!(!old.has("<mark") && old.has("has changed since"), "{old:?}");

    let asked = browser.post("/corpora/notes/forget", &[("id", "a/b c.md")]);
    assert!(asked.has("Forget a document?"), "{asked:?}");
    assert_eq!(browser.get(to).status, 200, "a preview forgets nothing");
    let fields = [("id", "a/b c.md"), ("confirm", "yes")];
    let forgotten = browser.post("/corpora/notes/forget", &fields);
    assert!(
        forgotten.has("download=\"receipt.json\"") && forgotten.has("verified"),
        "{forgotten:?}"
    );
    assert_eq!(browser.get(to).status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_are_shown_and_do_nothing() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let line = "x".repeat(64 << 10);
    let hostile =
        Document { title: HOSTILE.replace(['\0', '\r', '\n'], " "), ..document("h", HOSTILE) };
    remember(&client, &notes, vec![hostile, document("<script>alert(1)</script>", line)]).await;
    tell(&client, "<script>", &[(Role::User, HOSTILE)]).await;
    let browser = Browser::of(&home, &server);
    for path in [
        "/corpora/notes/documents",
        "/corpora/notes/document?id=h",
        "/corpora/notes/document?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/corpora/notes/search?q=%3Cscript%3Edocument&mode=sparse",
        "/corpora/notes/ask?q=%3Cscript%3Edocument.title%3F",
        "/corpora/notes/users",
        "/corpora/notes/user?user=%3Cscript%3E",
        "/corpora/notes/user?user=%3Cscript%3E&session=monday",
        "/corpora/notes/user?user=%3Cscript%3E&q=%3Cscript%3E",
        "/login?next=%22%3E%3Cscript%3E",
    ] {
        let page = browser.get(path);
        assert!(page.has("&lt;script"), "{path}: {page:?}");
        // The console's own script is the only one.
        assert_eq!(page.body.matches("<script").count(), 1, "{path}: {page:?}");
        assert!(!page.has("<img") && !page.has("<b>"), "{path}: {page:?}");
    }
    let page = browser.get("/corpora/notes/document?id=h");
    assert!(page.has("\u{202e}desrever \u{fffd}&#13;\n"), "every character is there: {page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_is_corrected_and_forgotten_by_forms() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    create(&client, "notes").await;
    let turns = [
        (Role::User, "I live in Porto."),
        (Role::Assistant, "Noted."),
        (Role::User, "I have moved to Lisbon, I live in Lisbon now."),
    ];
    tell(&client, "ada", &turns).await;
    let browser = Browser::of(&home, &server);
    assert!(browser.get("/corpora/notes/users").has("user?user=ada"));
    assert!(browser.get("/corpora/notes/user?user=ada").has("3 turns"));
    let session = "/corpora/notes/user?user=ada&session=monday";
    assert!(browser.get(session).has("I live in Porto."));
    let recalled = browser.get("/corpora/notes/user?user=ada&q=Where+do+I+live%3F");
    assert!(recalled.has("Lisbon"), "{recalled:?}");

    let at = [("user", "ada"), ("session", "monday"), ("number", "0")];
    let text = ("text", "I lived in Braga.");
    let corrected = browser.post("/corpora/notes/user/turn", &[&at[..], &[text]].concat());
    assert_eq!(corrected.status, 303, "{corrected:?}");
    let after = browser.get(session);
    assert!(after.has("I lived in Braga.") && !after.has("Porto"), "{after:?}");

    let asked = browser.post("/corpora/notes/user/forget", &at);
    assert!(asked.has("1 turn") && asked.has("Forget it"), "{asked:?}");
    assert!(browser.get(session).has("Braga"), "a preview forgets nothing");
    let confirmed = [&at[..], &[("confirm", "yes")]].concat();
    let forgotten = browser.post("/corpora/notes/user/forget", &confirmed);
    assert!(forgotten.has("download=\"receipt.json\""), "{forgotten:?}");
    let after = browser.get(session);
    assert!(!after.has("Braga") && after.has("Lisbon"), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_page_is_refused() {
    let home = Home::new();
    let mut command = home.serve_command();
    // Such pages may call the API, and still not send the forms of the console.
    command.env("CLEW_HTTP__ALLOWED_ORIGINS", r#"["http://app.example"]"#);
    let server = Server::start(command);
    let browser = Browser::of(&home, &server);
    for origin in
        [&[][..], &["--header", "Origin: null"], &["--header", "Origin: http://app.example"]]
    {
        for path in ["/", "/login", "/logout", "/corpora/notes/forget"] {
            let page = browser.post_from(origin, path, &[("name", "notes")]);
            assert_eq!(page.status, 403, "{origin:?} {path}: {page:?}");
        }
    }
    assert!(server.client().await.corpora().await.unwrap().is_empty());
    let host = browser.ask("/", &["--header", "Host: evil.example"]);
    assert_eq!(host.status, 421, "{host:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_sealed_and_opens_what_its_key_opens() {
    let world = World::new();
    let server = world.serve();
    let acme = world.client(&server, "acme").await;
    fill(&acme).await;
    let labels = Labels::parse(["hr"]).unwrap();
    let secret = Document { labels, ..document("salaries", "The zanzibar salaries.") };
    let personnel = world.client(&server, "acme-hr").await;
    remember(&personnel, &corpus("notes"), vec![secret]).await;

    let mut browser = Browser::of(&world.home, &server);
    let sent = browser.get("/corpora/notes/documents?state=failed");
    let to = "/login?next=%2Fcorpora%2Fnotes%2Fdocuments%3Fstate%3Dfailed";
    assert_eq!((sent.status, sent.header("location")), (303, Some(to)), "{sent:?}");
    assert_eq!(browser.get("/").header("location"), Some("/login"));
    assert_eq!(browser.get(to).status, 200);
    assert!(browser.get("/assets/style.css").has("color-scheme"));
    for (key, status) in [("clew_wrong", 401), ("", 400), ("a\r\nb", 401)] {
        let refused = browser.post("/login", &[("key", key)]);
        assert_eq!((refused.status, refused.header("set-cookie")), (status, None), "{refused:?}");
    }

    let key = &world.keys["acme-reader"];
    let entered = browser.log_in(key);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")), "{entered:?}");
    let cookie = entered.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Secure", "; Max-Age=3600", "; Path=/;"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&key.reveal()["clew_".len()..]), "{cookie}");
    let documents = browser.get("/corpora/notes/documents");
    assert!(documents.has("acme-reader of acme") && documents.has("d0"), "{documents:?}");
    // What the key does not open is not offered, and refused just the same.
    assert!(!documents.has("Add a document"), "{documents:?}");
    assert!(!browser.get("/corpora/notes/document?id=d0").has("Forget"));
    assert!(!browser.get("/").has("New corpus"));
    let refused = browser.post("/corpora/notes/forget", &[("id", "d0"), ("confirm", "yes")]);
    assert_eq!(refused.status, 403, "{refused:?}");
    // A label that is not held: the document is nowhere.
    for path in [
        "/documents",
        "/search?q=zanzibar",
        "/ask?q=zanzibar%3F",
        "/graph",
        "/graph?id=salaries&version=1",
        "/tree",
        "/failures",
    ] {
        let page = browser.get(&format!("/corpora/notes{path}"));
        assert!(page.status == 200 && !page.has("salaries"), "{path}: {page:?}");
    }
    assert_eq!(browser.get("/corpora/notes/document?id=salaries").status, 404);
    let tree = browser.get("/corpora/notes/tree?id=salaries");
    assert!(tree.has("No tree is built yet") && !tree.has("zanzibar"), "{tree:?}");

    let held = browser.cookie.clone().unwrap();
    let last = if held.ends_with('A') { "B" } else { "A" };
    browser.cookie = Some(format!("{}{last}", &held[..held.len() - 1]));
    assert_eq!(browser.get("/").status, 303, "a cookie that was changed");
    browser.cookie = Some(held);
    let left = browser.post("/logout", &[]);
    assert!(left.header("set-cookie").unwrap().contains("Max-Age=0"), "{left:?}");

    browser.log_in(&world.keys["acme-hr"]);
    let documents = browser.get("/corpora/notes/documents");
    assert!(documents.has("salaries") && documents.has("Add a document"), "{documents:?}");
    browser.log_in(&world.keys["other"]);
    assert_eq!(browser.get("/corpora/notes").status, 404, "of another tenant");
    browser.log_in(&world.keys["acme-writer"]);
    assert!(browser.get("/").has("lacks the scope"));
    let log = server.log();
    for key in world.keys.values() {
        assert!(!log.contains(&key.reveal()["clew_".len()..]), "a key was logged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_where_it_is_configured() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_CONSOLE__BASE_PATH", "/console");
    let server = Server::start(command);
    fill(&server.client().await).await;
    let browser = Browser::of(&home, &server);
    for path in PAGES {
        let page = browser.get(&format!("/console{path}"));
        assert_eq!(page.status, 200, "{path}: {page:?}");
        let links: Vec<&str> = page.body.split("href=\"").skip(1).collect();
        let is_own = |link: &&str| link.starts_with("/console/") || link.starts_with('#');
        assert!(links.len() > 5 && links.iter().all(is_own), "{path}: {page:?}");
    }
    assert_eq!(browser.get("/console").status, 200);
    assert_eq!(browser.get("/").status, 404);
    drop(server);
    let mut command = home.serve_command();
    command.env("CLEW_CONSOLE__ENABLED", "false");
    let server = Server::start(command);
    assert_eq!(Browser::of(&home, &server).get("/").status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_listed_and_shown_with_its_parts() {
    let home = Home::new();
    let server = home.serve();
    fill(&server.client().await).await;
    home.write("bees.txt", "Bees sleep in winter.");
    let mut ingest = home.clew();
    ingest.args(["ingest", "--corpus", "notes", "--run", "monday", "--endpoint", &server.endpoint]);
    ingest.arg(home.path("bees.txt"));
    let ran = Ran::of(ingest);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let browser = Browser::of(&home, &server);
    let address = "/corpora/notes/runs?run=monday";
    let listed = browser.get("/corpora/notes/runs");
    assert!(listed.has(&format!("href=\"{address}\"")) && !listed.has("unknown"), "{listed:?}");
    let run = browser.get(address);
    assert!(run.has("1 of 1 part ended") && run.has("1 part reported"), "{run:?}");
    assert!(run.has(">done<") || run.has("accepted, being indexed"), "{run:?}");
    assert_eq!(browser.get("/corpora/notes/runs?run=tuesday").status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_is_shown_and_drained_in_a_browser() {
    let settings = vec![("CLEW_HTTP__LISTEN", "127.0.0.1:0".to_owned())];
    let cluster = Cluster::start_with(2, settings).await;
    let home = Home::new();
    let browser = Browser::of(&home, cluster.gateway());
    let page = browser.get("/cluster");
    assert_eq!(page.status, 200, "{page:?}");
    for part in ["gateway-0", "retriever-0", "encoder-0", "What runs", "serving"] {
        assert!(page.has(part), "no {part}: {page:?}");
    }
    a_person_finds_nothing_to_complain_of(cluster.gateway(), "drain", None);
    cluster.stop();
}

/// Starts a server with keys and the published model, which answers in words.
fn serve_with_keys(home: &Home, key: &ApiKey) -> Server {
    let scopes = "['read', 'write', 'admin']";
    let hash = key.hash();
    home.write("keys.toml", format!("[[key]]\nname = 'ada'\nhash = '{hash}'\nscopes = {scopes}\n"));
    let mut command: Command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg("--data-dir").arg(home.data_dir());
    command.arg("--model").arg(published_model());
    command.env("CLEW_AUTH__KEYS_FILE", home.path("keys.toml"));
    Server::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_finds_every_page_in_order() {
    let home = Home::new();
    let key = ApiKey::generate().unwrap();
    let server = serve_with_keys(&home, &key);
    let credentials =
        Credentials { api_key: Some(key.reveal().to_owned()), ..Credentials::default() };
    let client = Client::connect_as(&credentials, &server.endpoint, PATIENCE).await.unwrap();
    let notes = create(&client, "notes").await;
    let hostile =
        Document { title: HOSTILE.replace(['\0', '\r', '\n'], " "), ..document("h", HOSTILE) };
    remember(&client, &notes, vec![hostile]).await;
    // In a corpus of its own, because nothing else is to wait until so much is indexed.
    let long = create(&client, "long").await;
    accept(&client, &long, vec![document("line", "ab".repeat(LINE_BYTES / 2))]).await;
    tell(&client, "ada", &[(Role::User, "I live in Porto."), (Role::User, HOSTILE)]).await;
    for task in ["use", "look", "look-on"] {
        a_person_finds_nothing_to_complain_of(&server, task, Some(&key));
    }
}

/// Uses a console in Chromium (`tests/console/pages.py`).
fn a_person_finds_nothing_to_complain_of(server: &Server, task: &str, key: Option<&ApiKey>) {
    let mut pages = python("tests/console/pages.py");
    pages.args([&server.http(), task]);
    if let Some(key) = key {
        pages.env("KEY", key.reveal());
    }
    let done = Ran::of(pages);
    assert_eq!(done.code, Some(0), "{task}: {}\n{}", done.stdout, done.stderr);
    assert!(done.stdout.ends_with("all is well\n"), "{task}: {}", done.stdout);
}
