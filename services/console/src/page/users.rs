//! The users whose conversations a corpus keeps.

use clew_core::CorpusName;
use clew_proto::chat::v1::{ListUsersRequest, ListUsersResponse};
use maud::{Markup, html};

use super::Shown;
use crate::paging::pages;
use crate::shell::{self, Tab, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, time};
use crate::visitor::{OfCorpus, Visitor};

/// Users of one page.
const PAGE_SIZE: u32 = 50;

pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let prefix = visitor.query.get("prefix");
    let request = ListUsersRequest {
        corpus: corpus.to_string(),
        prefix: prefix.to_owned(),
        page_size: PAGE_SIZE,
        page_token: visitor.query.get("page").to_owned(),
    };
    let listed = visitor.client.users_page(request).await?;
    let content = html! {
        h1 { "Users" }
        p { "People whose conversations are kept in this corpus." }
        form class="fields line" method="get" action=(visitor.of(&corpus, "users", &[])) {
            label for="prefix" { "Id begins with" }
            input id="prefix" name="prefix" value=(prefix) autocomplete="off";
            button { "Show" }
        }
        (known(&visitor, &corpus, &listed, prefix))
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Users), "Users", content))
}

fn known(
    visitor: &Visitor,
    corpus: &CorpusName,
    listed: &ListUsersResponse,
    prefix: &str,
) -> Markup {
    let columns = [Words("User"), Number("Turns"), Words("First stored"), Words("Last stored")];
    let rows = html! {
        @for user in &listed.users {
            tr {
                th scope="row" {
                    a href=(visitor.of(corpus, "user", &[("user", &user.user)])) { bdi { (user.user) } }
                }
                td class="number" { (count(user.turns)) }
                td { (time(user.first_stored_at.as_ref())) }
                td { (time(user.last_stored_at.as_ref())) }
            }
        }
    };
    html! {
        @if listed.users.is_empty() {
            p { "No users." }
        } @else {
            (table("Users", &columns, &rows))
        }
        (pages(visitor, &listed.next_page_token, |page| {
            visitor.of(corpus, "users", &[("prefix", prefix), ("page", page)])
        }))
    }
}
