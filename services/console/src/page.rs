//! The pages, one file for each. A page calls the services and shows what they answer.

pub(crate) mod ask;
pub(crate) mod assets;
pub(crate) mod cluster;
pub(crate) mod connect;
pub(crate) mod corpus;
pub(crate) mod document;
pub(crate) mod documents;
pub(crate) mod failures;
pub(crate) mod forget;
pub(crate) mod graph;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod tree;
pub(crate) mod user;
pub(crate) mod users;

use axum::response::Response;

use crate::failed::Failed;

/// A page, or why there is none.
pub(crate) type Shown = Result<Response, Failed>;
