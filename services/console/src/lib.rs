//! The console: pages that show people what Clew remembers, and why it answered so.
//!
//! ```text
//! browser ─► front ─► protected ─► Visitor (login, WhoAmI) ─► page ─► Client ─► services
//! ```
//!
//! Every page is made on the server, by templates that the compiler checks, out of calls of the
//! services on behalf of the visitor ([`clew_client::Client`]). So keys, tenants, labels and quotas
//! hold here as everywhere, and nothing is kept between two requests: a login is a sealed cookie.
//!
//! All stored text is hostile. Templates escape it, it is shown as text and never as markup, and
//! the policy that goes with every page lets a browser run no other script than the console's own.

mod config;
mod console;
mod failed;
mod fields;
mod page;
mod paging;
mod picture;
mod protected;
mod sealing;
mod shell;
mod steps;
mod structure;
mod table;
mod text;
mod timeline;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use clew_client::Services;
use clew_core::Error;

pub use config::ConsoleConfig;
pub use console::Place;

use crate::console::Console;
use crate::protected::protect;

/// Returns the routes of the console over `services`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, or names a
/// secret that is not there.
pub fn routes(services: Services, config: &ConsoleConfig, place: Place) -> Result<Router, Error> {
    config.validate()?;
    let console = Arc::new(Console::new(services, config, place)?);
    let at = |path: &str| format!("{}{path}", config.base_path);
    let of_corpus = |path: &str| format!("{}/corpora/{{corpus}}{path}", config.base_path);
    let mut router = Router::new()
        .route(&at("/"), get(page::overview::show).post(page::overview::create))
        .route(&at("/login"), get(page::login::show).post(page::login::log_in))
        .route(&at("/logout"), post(page::login::log_out))
        .route(&at("/connect"), get(page::connect::show))
        .route(&at("/assets/style.css"), get(page::assets::style))
        .route(&at("/assets/script.js"), get(page::assets::script))
        .route(&at("/assets/icon.svg"), get(page::assets::icon))
        .route(&of_corpus(""), get(page::corpus::show))
        .route(&of_corpus("/documents"), get(page::documents::show).post(page::documents::upload))
        .route(&of_corpus("/document"), get(page::document::show))
        .route(&of_corpus("/forget"), post(page::forget::documents))
        .route(&of_corpus("/search"), get(page::search::show))
        .route(&of_corpus("/ask"), get(page::ask::show))
        .route(&of_corpus("/ask/stream"), get(page::ask::stream))
        .route(&of_corpus("/graph"), get(page::graph::show))
        .route(&of_corpus("/tree"), get(page::tree::show))
        .route(&of_corpus("/users"), get(page::users::show))
        .route(&of_corpus("/user"), get(page::user::show))
        .route(&of_corpus("/user/turn"), post(page::user::correct))
        .route(&of_corpus("/user/forget"), post(page::forget::turns))
        .route(&of_corpus("/failures"), get(page::failures::show))
        .route(&of_corpus("/runs"), get(page::runs::show));
    if !config.base_path.is_empty() {
        router = router.route(&config.base_path, get(page::overview::show));
    }
    if place.is_cluster {
        let cluster = get(page::cluster::show).post(page::cluster::drain);
        router = router.route(&at("/cluster"), cluster);
    }
    let router = router.layer(from_fn_with_state(Arc::clone(&console), protect));
    Ok(router.with_state(console))
}
