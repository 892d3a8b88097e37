//! Logging in with a key, and out.

use std::sync::Arc;

use axum::extract::FromRequest;
use axum::extract::{Request, State};
use axum::http::header::{ORIGIN, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use clew_core::Error;
use maud::html;

use super::Shown;
use crate::console::Console;
use crate::failed::Failed;
use crate::fields::{Fields, Posted};
use crate::protected::see_other;
use crate::sealing::MAX_KEY_BYTES;
use crate::shell;
use crate::visitor::{LOGIN_COOKIE, try_key};

/// Shows the form for a key.
pub(crate) async fn show(State(console): State<Arc<Console>>, request: Request) -> Response {
    let query = Fields::read(request.uri().query().unwrap_or_default().as_bytes());
    form(&console, StatusCode::OK, query.get("next"), None)
}

/// Logs in with the key of the form.
pub(crate) async fn log_in(State(console): State<Arc<Console>>, request: Request) -> Shown {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let Posted(fields) = Posted::from_request(request, &()).await?;
    let (key, next) = (fields.get("key"), fields.get("next"));
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let problem = format!("expected a key of at most {MAX_KEY_BYTES} bytes");
        return Ok(form(&console, StatusCode::BAD_REQUEST, next, Some(&problem)));
    }
    match try_key(&console, &parts, key).await {
        Ok(()) => {}
        Err(refused) if refused.status() == StatusCode::UNAUTHORIZED => {
            return Ok(form(&console, refused.status(), next, Some(refused.message())));
        }
        Err(failed) => return Err(failed),
    }
    let sealed = console.sealer.seal(key, console.now())?;
    let is_encrypted =
        parts.headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secs = console.sealer.lasts().as_secs();
    let mut response = see_other(&own_page(&console, next));
    set_cookie(&mut response, &cookie(&console, &sealed, secs, is_encrypted))?;
    Ok(response)
}

/// Logs out: the browser forgets the login.
pub(crate) async fn log_out(State(console): State<Arc<Console>>) -> Shown {
    let mut response = see_other(&console.at("/login"));
    set_cookie(&mut response, &cookie(&console, "", 0, false))?;
    Ok(response)
}

fn form(console: &Console, status: StatusCode, next: &str, problem: Option<&str>) -> Response {
    let minutes = console.sealer.lasts().as_secs() / 60;
    let content = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem {
            p class="problem" role="alert" { (problem) }
        }
        form class="fields narrow" method="post" action=(console.at("/login")) {
            // Tells password managers what the key is of.
            input type="text" name="server" value="Clew" autocomplete="username" hidden readonly;
            label for="key" { "Key" }
            input id="key" name="key" type="password" required autofocus autocomplete="current-password"
                placeholder="clew_…" aria-describedby="key-note";
            p id="key-note" class="quiet" {
                "A key that an operator gave you. It stays in this browser for " (minutes)
                " minutes, sealed, and nowhere else."
            }
            input type="hidden" name="next" value=(next);
            button { "Log in" }
        }
    };
    shell::bare(console, status, "Log in", content)
}

/// Returns where to go after the login: a page of the console alone, whatever a link says.
fn own_page(console: &Console, next: &str) -> String {
    let is_own = next.strip_prefix(console.base.as_str()).is_some_and(|path| {
        path.starts_with('/')
            && !next.starts_with("//")
            && !next.contains('\\')
            && next.bytes().all(|byte| byte.is_ascii_graphic())
    });
    if is_own { next.to_owned() } else { console.at("/") }
}

/// Returns the cookie of a login. Scripts cannot read it, and browsers send it to the console's own
/// pages alone, if these ask for it themselves.
fn cookie(console: &Console, sealed: &str, secs: u64, is_encrypted: bool) -> String {
    let path = if console.base.is_empty() { "/" } else { &console.base };
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!(
        "{LOGIN_COOKIE}={sealed}; Path={path}; Max-Age={secs}; HttpOnly; SameSite=Strict{secure}"
    )
}

fn set_cookie(response: &mut Response, cookie: &str) -> Result<(), Failed> {
    let value = HeaderValue::try_from(cookie)
        .map_err(|error| Error::internal("a cookie is not ASCII").with_source(error))?;
    response.headers_mut().insert(SET_COOKIE, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clew_client::Services;
    use tonic::body::Body;
    use tonic::codegen::http::{Request, Response};

    use super::*;
    use crate::{ConsoleConfig, Place};

    /// Returns a console whose services are never called.
    fn console(base: &str) -> Console {
        #[derive(Clone)]
        struct Unreached;
        impl tonic::codegen::Service<Request<Body>> for Unreached {
            type Response = Response<Body>;
            type Error = std::convert::Infallible;
            type Future = std::future::Ready<Result<Self::Response, Self::Error>>;
            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }
            fn call(&mut self, _: Request<Body>) -> Self::Future {
                panic!("nothing is asked")
            }
        }
        let config = ConsoleConfig { base_path: base.to_owned(), ..ConsoleConfig::default() };
        Console::new(Services::over(Unreached), &config, Place::default()).unwrap()
    }

    #[test]
    fn a_login_leads_to_a_page_of_the_console_alone() {
        let plain = console("");
        for own in ["/", "/corpora/a?b=c%20d", "/connect"] {
            assert_eq!(own_page(&plain, own), own);
        }
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\n", "a"]
        {
            assert_eq!(own_page(&plain, other), "/", "{other}");
        }
        let below = console("/console");
        assert_eq!(own_page(&below, "/console/connect"), "/console/connect");
        for other in ["/consoles", "/api", "/"] {
            assert_eq!(own_page(&below, other), "/console/", "{other}");
        }
    }

    #[test]
    fn a_cookie_is_kept_from_scripts_and_other_sites() {
        assert_eq!(
            cookie(&console(""), "x", 60, true),
            "clew_login=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            cookie(&console("/a"), "", 0, false),
            "clew_login=; Path=/a; Max-Age=0; HttpOnly; SameSite=Strict"
        );
    }
}
