//! Requests to an endpoint: who is admitted, how fast, what is tried again, and what a failure means.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{Clock, Error, ErrorKind, SystemClock};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::backoff::Backoff;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use url::{Host, Url};

use crate::config::{ApiKey, EndpointConfig, Flavour};
use crate::pace::{RateLimit, RetryBudget, retry_after};

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Shortest and longest pause before a request is repeated, unless the server asks for a longer one.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// When a caller that was refused for want of room may come back: about a short reply's time.
const ROOM_PAUSE: Duration = Duration::from_secs(1);
/// How long the end of a response may stay out once its last word is there; a connection whose response
/// is read to its end serves the next request.
const END_PATIENCE: Duration = Duration::from_millis(20);
/// Most that is read of a refusal.
const MOST_REFUSAL_BYTES: usize = 64 << 10;

/// Reads a response as it comes.
pub(crate) trait Reader: Send {
    /// What it reads.
    type Reply: Send;

    /// A request is about to be sent.
    fn ask(&mut self) {}

    /// A response begins; what was read before is void.
    fn begin(&mut self);

    /// Takes the next bytes; answers whether more are wanted.
    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure>;

    /// No more bytes come, or none are wanted.
    fn end(&mut self) -> Result<Self::Reply, Failure>;
}

/// How far a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of it is to come.
    More,
    /// All that matters is there.
    Done,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// With the pause that the server asks for.
    pub(crate) error: Error,
    /// Whether another attempt may do better.
    is_passing: bool,
}

impl Failure {
    /// Another attempt may do better.
    pub(crate) fn passing(error: Error) -> Self {
        Self { error, is_passing: true }
    }

    /// Another attempt would fail, too.
    pub(crate) fn lasting(error: Error) -> Self {
        Self { error, is_passing: false }
    }

    /// The response is not what an endpoint of this kind sends.
    pub(crate) fn broken(what: &str) -> Self {
        let message = format!("the model's endpoint {what}; retry later");
        Self::passing(Error::new(ErrorKind::Unavailable, "ENDPOINT_FAILED", message))
    }
}

/// A reply and how many requests it took.
#[derive(Debug)]
pub(crate) struct Called<T> {
    pub(crate) reply: T,
    pub(crate) calls: u32,
}

/// One operation of one endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    http: Client,
    address: Url,
    headers: HeaderMap,
    window: u32,
    attempts: u32,
    timeout: Duration,
    idle_timeout: Duration,
    /// Requests under way and those that wait.
    room: Gate,
    /// Requests under way.
    running: Gate,
    /// Requests that nobody waits for, so that these do not take all that there is.
    bulk: Gate,
    rate: Option<RateLimit>,
    budget: RetryBudget,
}

impl Connection {
    /// A connection for `operation`, such as `chat/completions`. Reads files, for the certificates that
    /// the system trusts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a bad address; [`ErrorKind::WrongState`] if there are no
    /// certificates to trust.
    pub(crate) fn try_new(
        config: &EndpointConfig,
        key: Option<&ApiKey>,
        operation: &str,
    ) -> Result<Self, Error> {
        let address =
            config.address(operation).map_err(|problem| Error::invalid("url", problem))?;
        let now = Instant::now();
        Ok(Self {
            http: client(&address)?,
            address,
            headers: headers(config.flavour, key)?,
            window: config.window,
            attempts: config.attempts,
            timeout: config.timeout(),
            idle_timeout: config.idle_timeout(),
            room: Gate::new(
                "the queue of the model's endpoint",
                config.max_concurrency.saturating_add(config.max_waiting),
                ROOM_PAUSE,
            )
            .seen_as("endpoint", "requests"),
            running: Gate::new("the model's endpoint", config.max_concurrency, ROOM_PAUSE),
            // Of what runs at once, one is left to those who wait for an answer.
            bulk: Gate::new(
                "the queue of the model's endpoint",
                config.max_concurrency.saturating_sub(1).max(1),
                ROOM_PAUSE,
            ),
            rate: config.requests_per_minute.map(|rate| RateLimit::new(rate, now)),
            budget: RetryBudget::new(now),
        })
    }

    /// A place among those who run and wait.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] at once if all are taken.
    pub(crate) fn admit(&self) -> Result<Permit, Error> {
        self.room.try_enter(1)
    }

    /// A turn among those whom nobody waits for, and a place among those who run and wait, once there are both.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] if there is none until `deadline`.
    pub(crate) async fn admitted(&self, deadline: Instant) -> Result<(Permit, Permit), Error> {
        let turn = self.bulk.enter(1, deadline).await?;
        Ok((turn, self.room.enter(1, deadline).await?))
    }

    /// Sends `body` and reads the reply; tries again what may pass, as long as attempts, of which there are at most
    /// `most`, the budget and time last.
    ///
    /// # Errors
    /// That of the last attempt; [`ErrorKind::DeadlineExceeded`]; [`ErrorKind::Exhausted`] if the
    /// requests under way leave no room in time, or the rate has none, at once.
    pub(crate) async fn call<R: Reader>(
        &self,
        body: Bytes,
        most: Option<NonZeroU32>,
        deadline: Instant,
        reader: &mut R,
    ) -> Result<Called<R::Reply>, Error> {
        let attempts = most.map_or(self.attempts, |most| self.attempts.min(most.get()));
        self.budget.earn();
        let mut backoff = Backoff::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
        let mut calls = 1;
        loop {
            let failure = match self.attempt(&body, deadline, reader).await {
                Ok(reply) => return Ok(Called { reply, calls }),
                Err(failure) => failure,
            };
            let Failure { error, is_passing } = failure;
            let pause = error.retry_after().unwrap_or_default().max(backoff.next_delay());
            let now = Instant::now();
            let is_in_time = pause < deadline.saturating_duration_since(now);
            let is_worth_it = is_passing && calls < attempts && is_in_time;
            if !is_worth_it || !self.budget.spend(now) {
                return Err(error);
            }
            tracing::debug!(attempt = calls, reason = error.reason(), error = %error.chain(), "asking the model again");
            tokio::time::sleep(pause).await;
            calls += 1;
        }
    }

    async fn attempt<R: Reader>(
        &self,
        body: &Bytes,
        deadline: Instant,
        reader: &mut R,
    ) -> Result<R::Reply, Failure> {
        let _running = self.running.enter(1, deadline).await.map_err(Failure::lasting)?;
        let now = Instant::now();
        if let Some(rate) = &self.rate {
            let wait = rate.take(now, deadline.saturating_duration_since(now)).map_err(|wait| {
                Failure::lasting(Error::exhausted("the rate of the model's endpoint", wait))
            })?;
            tokio::time::sleep(wait).await;
        }
        let give_up = deadline.min(Instant::now() + self.timeout);
        match tokio::time::timeout_at(give_up.into(), self.exchange(body, reader)).await {
            Ok(read) => read,
            Err(_elapsed) => {
                let error = Error::deadline("the model replied");
                Err(if give_up < deadline {
                    Failure::passing(error)
                } else {
                    Failure::lasting(error)
                })
            }
        }
    }

    async fn exchange<R: Reader>(&self, body: &Bytes, reader: &mut R) -> Result<R::Reply, Failure> {
        reader.ask();
        let request = self.http.post(self.address.clone()).headers(self.headers.clone());
        let mut response = self.awaited(request.body(body.clone()).send()).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        reader.begin();
        while let Some(bytes) = self.awaited(response.chunk()).await? {
            if reader.feed(&bytes)? == Progress::Done {
                // Whether it ended or not, the reply is there.
                drop(tokio::time::timeout(END_PATIENCE, response.chunk()).await);
                break;
            }
        }
        reader.end()
    }

    /// What the server sends next, unless it is silent for too long.
    async fn awaited<T>(
        &self,
        next: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.idle_timeout, next).await {
            Ok(result) => result.map_err(broken_connection),
            Err(_elapsed) => {
                let seconds = self.idle_timeout.as_secs();
                Err(Failure::broken(&format!("sent nothing for {seconds} s")))
            }
        }
    }

    /// What a response that is no success means.
    async fn refusal(&self, mut response: Response) -> Failure {
        let status = response.status();
        let pause = retry_after(response.headers(), SystemClock.now());
        let mut said = Vec::new();
        // A refusal whose text does not arrive is one all the same.
        while let Ok(Some(bytes)) = self.awaited(response.chunk()).await
            && said.len() < MOST_REFUSAL_BYTES
        {
            said.extend_from_slice(&bytes);
        }
        judge(&Refusal { status, pause, said: &said, window: self.window })
    }
}

/// A response that is no success.
struct Refusal<'a> {
    status: StatusCode,
    pause: Option<Duration>,
    /// Its body. It may repeat the prompt, so it is looked at and never shown.
    said: &'a [u8],
    window: u32,
}

fn judge(refusal: &Refusal<'_>) -> Failure {
    let Refusal { status, pause, said, window } = *refusal;
    let said = String::from_utf8_lossy(said).to_ascii_lowercase();
    let code = status.as_u16();
    match code {
        429 => {
            let error =
                Error::exhausted("the quota at the model's endpoint", pause.unwrap_or(ROOM_PAUSE));
            // OpenAI's word for an account without money.
            let is_passing = !said.contains("insufficient_quota");
            Failure { error, is_passing }
        }
        408 | 500..=599 => {
            let mut failure = Failure::broken(&format!("failed with status {code}"));
            if let Some(pause) = pause {
                failure.error = failure.error.with_retry_after(pause);
            }
            failure
        }
        413 => Failure::lasting(too_long(window)),
        400 | 422 if TOO_LONG_WORDS.iter().any(|words| said.contains(words)) => {
            Failure::lasting(too_long(window))
        }
        400 | 422 => {
            let message = format!(
                "the model's endpoint refused the request with status {code}; it may not take one of \
                 its parameters or `structured_output`"
            );
            Failure::lasting(Error::new(ErrorKind::InvalidInput, "REQUEST_REFUSED", message))
        }
        _ => {
            let hint = match code {
                401 | 403 => "check its key",
                _ => "check `url` and `model`",
            };
            let message = format!("the model's endpoint refused us with status {code}; {hint}");
            Failure::lasting(Error::new(ErrorKind::WrongState, "ENDPOINT_REFUSED", message))
        }
    }
}

/// How OpenAI, Azure, vLLM, llama.cpp and Ollama say that a conversation is too long.
const TOO_LONG_WORDS: [&str; 5] = [
    "context_length_exceeded",
    "context length",
    "context size",
    "context window",
    "exceed_context_size",
];

/// The error for a conversation that does not fit.
pub(crate) fn too_long(window: u32) -> Error {
    let message = format!(
        "the conversation and its reply are longer than the model's window, which is said to be \
         {window} tokens"
    );
    Error::new(ErrorKind::InvalidInput, "CONTEXT_TOO_LONG", message)
}

/// The failure behind an error of the connection; without the address, which callers may not see.
fn broken_connection(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    if error.is_connect() {
        let message = "the model's endpoint cannot be reached; retry later";
        let unreachable = Error::new(ErrorKind::Unavailable, "ENDPOINT_UNREACHABLE", message);
        return Failure::passing(unreachable.with_source(error));
    }
    let mut failure = Failure::broken("broke the connection");
    failure.error = failure.error.with_source(error);
    failure
}

fn client(address: &Url) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_PATIENCE)
        // A request with a key goes where it was told to go.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("clew/", env!("CARGO_PKG_VERSION")))
        // Without TLS no certificates are needed, and a small machine may have none.
        .tls_built_in_root_certs(address.scheme() == "https");
    let is_this_machine = match address.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    if is_this_machine {
        // A proxy would look for it on its own machine.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| {
        let message = "cannot make an HTTP client; check the system's certificates";
        Error::new(ErrorKind::WrongState, "NO_CLIENT", message).with_source(error)
    })
}

fn headers(flavour: Flavour, key: Option<&ApiKey>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        let (name, value) = match flavour {
            Flavour::Openai => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
            Flavour::Azure => (HeaderName::from_static("api-key"), key.reveal().to_owned()),
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| Error::invalid("api_key", "expected a key that a header can carry"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_judged_by_its_status_and_words_and_never_repeats_them() {
        let long = br#"{"error": {"message": "hush: maximum context length is 8 tokens"}}"#;
        let broke = br#"{"error": {"code": "insufficient_quota", "message": "hush"}}"#;
        let cases: [(u16, &[u8], ErrorKind, &str, bool); 13] = [
            (400, b"hush", ErrorKind::InvalidInput, "REQUEST_REFUSED", false),
            (400, long, ErrorKind::InvalidInput, "CONTEXT_TOO_LONG", false),
            (422, long, ErrorKind::InvalidInput, "CONTEXT_TOO_LONG", false),
            (413, b"", ErrorKind::InvalidInput, "CONTEXT_TOO_LONG", false),
            (401, b"hush", ErrorKind::WrongState, "ENDPOINT_REFUSED", false),
            (403, b"hush", ErrorKind::WrongState, "ENDPOINT_REFUSED", false),
            (404, b"hush", ErrorKind::WrongState, "ENDPOINT_REFUSED", false),
            (301, b"hush", ErrorKind::WrongState, "ENDPOINT_REFUSED", false),
            (408, b"hush", ErrorKind::Unavailable, "ENDPOINT_FAILED", true),
            (429, b"hush", ErrorKind::Exhausted, "RESOURCE_EXHAUSTED", true),
            (429, broke, ErrorKind::Exhausted, "RESOURCE_EXHAUSTED", false),
            (500, b"hush", ErrorKind::Unavailable, "ENDPOINT_FAILED", true),
            (503, b"hush", ErrorKind::Unavailable, "ENDPOINT_FAILED", true),
        ];
        for (code, said, kind, reason, is_passing) in cases {
            let status = StatusCode::from_u16(code).unwrap();
            let failure = judge(&Refusal { status, pause: None, said, window: 8 });
            let error = &failure.error;
            assert_eq!((error.kind(), error.reason()), (kind, reason), "{code}");
            assert_eq!(failure.is_passing, is_passing, "{code}");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }

    #[test]
    fn the_pause_that_a_server_asks_for_is_passed_on() {
        let pause = Some(Duration::from_secs(9));
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
            let failure = judge(&Refusal { status, pause, said: b"", window: 8 });
            assert_eq!(failure.error.retry_after(), pause);
        }
    }

    #[test]
    fn the_key_goes_where_the_flavour_wants_it_and_is_not_shown() {
        let key = ApiKey::try_new("hush").unwrap();
        let openai = headers(Flavour::Openai, Some(&key)).unwrap();
        assert_eq!(openai[AUTHORIZATION], "Bearer hush");
        let azure = headers(Flavour::Azure, Some(&key)).unwrap();
        assert_eq!(azure["api-key"], "hush");
        assert!(!format!("{openai:?} {azure:?}").contains("hush"));
    }
}
