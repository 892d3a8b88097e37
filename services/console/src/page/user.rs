//! The memory of one user: sessions, turns, what each turn is found by, and what is recalled for a
//! question, with the statements that later ones supersede.

use clew_core::{CorpusName, Error};
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::chat::v1::{
    AppendTurnsRequest, ListSessionsRequest, ListSessionsResponse, ListTurnsRequest,
    ListTurnsResponse, RecallRequest, RecallResponse, Role, Statement,
};
use clew_proto::from_status;
use futures::{StreamExt, TryStreamExt};
use maud::{Markup, html};

use super::Shown;
use crate::failed::Failed;
use crate::fields::Posted;
use crate::paging::pages;
use crate::protected::see_other;
use crate::shell::{self, Tab, Where};
use crate::text::{Exact, count, counted, day, time};
use crate::visitor::{OfCorpus, Visitor};

/// Sessions of one page.
const PAGE_SIZE: u32 = 50;
/// Most turns of a session on its page.
const MAX_TURNS: usize = 500;
/// Items that are recalled for a question.
const RECALLED: u32 = 10;

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let (user, session) = (visitor.query.raw("user"), visitor.query.raw("session"));
    let question = visitor.query.get("q");
    let content = if session.is_empty() {
        let recalled = match question {
            "" => None,
            question => Some(recall(&visitor, &corpus, user, question).await?),
        };
        let sessions = sessions(&visitor, &corpus, user).await?;
        memory(&visitor, &corpus, user, &sessions, recalled.as_ref())
    } else {
        let turns = turns(&visitor, &corpus, user, session).await?;
        conversation(&visitor, &corpus, user, session, &turns)
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Users), user, content))
}

/// Corrects a turn: stores another text under its number, with its other fields as they are.
pub(crate) async fn correct(
    OfCorpus(corpus): OfCorpus,
    visitor: Visitor,
    Posted(fields): Posted,
) -> Shown {
    let (user, session) = (fields.raw("user"), fields.raw("session"));
    let number: u32 = fields.number("number")?.unwrap_or_default();
    let stored = turns(&visitor, &corpus, user, session).await?;
    let stored =
        stored.into_iter().find(|one| one.turn.as_ref().is_some_and(|turn| turn.number == number));
    let stored = stored.ok_or_else(|| Error::not_found("turn", number))?;
    let mut turn = stored.turn.unwrap_or_default();
    turn.text = fields.raw("text").replace("\r\n", "\n");
    let request = AppendTurnsRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        session: session.to_owned(),
        turns: vec![turn],
        labels: stored.labels,
        ..Default::default()
    };
    let appended = ChatServiceClient::new(visitor.client.services()).append_turns(request).await;
    appended.map_err(|status| from_status(&status))?;
    let to = visitor.of(&corpus, "user", &[("user", user), ("session", session)]);
    Ok(see_other(&format!("{to}#turn-{number}")))
}

async fn sessions(
    visitor: &Visitor,
    corpus: &CorpusName,
    user: &str,
) -> Result<ListSessionsResponse, Failed> {
    let request = ListSessionsRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        page_size: PAGE_SIZE,
        page_token: visitor.query.get("page").to_owned(),
    };
    Ok(visitor.client.sessions_page(request).await?)
}

async fn turns(
    visitor: &Visitor,
    corpus: &CorpusName,
    user: &str,
    session: &str,
) -> Result<Vec<ListTurnsResponse>, Failed> {
    let asked = ListTurnsRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        session: session.to_owned(),
        filter: None,
    };
    let listed = visitor.client.list_turns(asked).await?;
    let mut turns: Vec<ListTurnsResponse> = listed.take(MAX_TURNS).try_collect().await?;
    turns.sort_by_key(|one| one.turn.as_ref().map_or(0, |turn| turn.number));
    Ok(turns)
}

async fn recall(
    visitor: &Visitor,
    corpus: &CorpusName,
    user: &str,
    question: &str,
) -> Result<RecallResponse, Failed> {
    let asked = RecallRequest {
        corpus: corpus.to_string(),
        user: user.to_owned(),
        question: question.to_owned(),
        k: Some(RECALLED),
        ..Default::default()
    };
    Ok(visitor.client.recall(asked).await?)
}

fn memory(
    visitor: &Visitor,
    corpus: &CorpusName,
    user: &str,
    sessions: &ListSessionsResponse,
    recalled: Option<&RecallResponse>,
) -> Markup {
    html! {
        h1 { "Memory of " bdi { (user) } }
        form class="fields line" method="get" action=(visitor.of(corpus, "user", &[])) {
            input type="hidden" name="user" value=(user);
            label for="q" { "What is recalled for" }
            input id="q" class="long" name="q" type="search" value=(visitor.query.get("q")) dir="auto";
            button { "Recall" }
        }
        @if let Some(recalled) = recalled { (items(visitor, corpus, user, recalled)) }
        h2 { "Sessions" }
        @if sessions.sessions.is_empty() {
            p { "Nothing is stored of this user." }
        }
        ul class="sessions" {
            @for session in &sessions.sessions {
                li {
                    a href=(visitor.of(corpus, "user", &[("user", user), ("session", &session.session)])) {
                        bdi { (session.session) }
                    }
                    " " span class="quiet" {
                        (counted(session.turns, "turn")) ", stored from "
                        (day(session.first_stored_at.as_ref())) " to " (day(session.last_stored_at.as_ref()))
                    }
                }
            }
        }
        (pages(visitor, &sessions.next_page_token, |page| {
            visitor.of(corpus, "user", &[("user", user), ("page", page)])
        }))
        @if visitor.may_write() && !sessions.sessions.is_empty() {
            (forget(visitor, corpus, [user, "", ""], "Forget this user…"))
        }
    }
}

/// Returns what was recalled, with what later statements supersede struck through.
fn items(visitor: &Visitor, corpus: &CorpusName, user: &str, recalled: &RecallResponse) -> Markup {
    html! {
        h2 { "Recalled" }
        @if recalled.items.is_empty() { p { "Nothing." } }
        ol class="hits" {
            @for item in &recalled.items {
                li {
                    a href=(visitor.of(corpus, "user", &[("user", user), ("session", &item.session)])) {
                        bdi { (item.session) }
                    }
                    " " span class="quiet" { "score " (format!("{:.4}", item.score)) }
                    @for turn in &item.turns {
                        p class="passage" {
                            span class="quiet" { (turn.number) " " bdi { (speaker(turn.role(), &turn.speaker)) } ": " }
                            span dir="auto" { (Exact(&turn.text)) }
                        }
                    }
                    @for pair in &item.superseded {
                        p class="superseded" {
                            del { (stated(pair.older.as_ref())) } " is superseded by "
                            ins { (stated(pair.newer.as_ref())) }
                        }
                    }
                }
            }
        }
    }
}

fn stated(statement: Option<&Statement>) -> Markup {
    html! {
        @if let Some(statement) = statement {
            bdi { (statement.text) } " (" (day(statement.time.as_ref())) ")"
        }
    }
}

fn conversation(
    visitor: &Visitor,
    corpus: &CorpusName,
    user: &str,
    session: &str,
    turns: &[ListTurnsResponse],
) -> Markup {
    html! {
        p { a href=(visitor.of(corpus, "user", &[("user", user)])) { "All sessions of " bdi { (user) } } }
        h1 { bdi { (session) } }
        @if turns.is_empty() { p { "Nothing is stored of this session." } }
        @if turns.len() == MAX_TURNS {
            p class="quiet" { "These are " (count(MAX_TURNS as u64)) " of its turns; " code { "clew chat list" } " has all." }
        }
        @for one in turns {
            @let turn = one.turn.clone().unwrap_or_default();
            article class="turn" id=(format!("turn-{}", turn.number)) {
                h2 {
                    (turn.number) " " bdi { (speaker(turn.role(), &turn.speaker)) }
                    " " span class="quiet" { (time(turn.time.as_ref())) }
                }
                div class="stored" dir="auto" { (Exact(&turn.text)) }
                @if !one.key.is_empty() {
                    p class="quiet" { "Also found by: " bdi { (one.key) } }
                }
                @if !one.labels.is_empty() {
                    p class="quiet" { "Labels: " (super::documents::labels(&one.labels)) }
                }
                @if visitor.may_write() {
                    @let number = turn.number.to_string();
                    details {
                        summary { "Correct or forget" }
                        form class="fields" method="post" action=(visitor.of(corpus, "user/turn", &[])) {
                            input type="hidden" name="user" value=(user);
                            input type="hidden" name="session" value=(session);
                            input type="hidden" name="number" value=(number);
                            @let field = format!("text-{number}");
                            label for=(field) { "What was said" }
                            // A browser drops the first line end of the field.
                            textarea id=(field) name="text" rows="4" required dir="auto" { "\n" (Exact(&turn.text)) }
                            button { "Correct" }
                        }
                        (forget(visitor, corpus, [user, session, &number], "Forget this turn…"))
                    }
                }
            }
        }
        @if visitor.may_write() && !turns.is_empty() {
            (forget(visitor, corpus, [user, session, ""], "Forget this session…"))
        }
    }
}

/// Returns the button that leads to the preview of forgetting a user, a session or a turn: the
/// values that are set.
fn forget(
    visitor: &Visitor,
    corpus: &CorpusName,
    [user, session, number]: [&str; 3],
    name: &str,
) -> Markup {
    html! {
        form class="line" method="post" action=(visitor.of(corpus, "user/forget", &[])) {
            input type="hidden" name="user" value=(user);
            input type="hidden" name="session" value=(session);
            input type="hidden" name="number" value=(number);
            button { (name) }
        }
    }
}

fn speaker(role: Role, speaker: &str) -> String {
    match (speaker, role) {
        ("", Role::Assistant) => "assistant".to_owned(),
        ("", Role::User | Role::Unspecified) => "user".to_owned(),
        (speaker, _) => speaker.to_owned(),
    }
}
