//! Requests to an endpoint: admission, rate limit, retries and the classification of failures.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{Clock, Error, ErrorKind, SystemClock};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::backoff::Backoff;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use url::{Host, Url};

use crate::config::{EndpointConfig, EndpointKey, Flavour};
use crate::pace::{RateLimit, RetryBudget, retry_after};

/// Maximum time to establish a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Shortest and longest pause before a retry, unless the server asks for a longer one.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Retry hint for a caller that was refused for lack of room: about the duration of a short reply.
const ROOM_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait for the end of a response after its last event. A connection whose response is read
/// to its end can serve the next request.
const END_PATIENCE: Duration = Duration::from_millis(20);
/// Maximum number of bytes read of a refusal.
const MOST_REFUSAL_BYTES: usize = 64 << 10;

/// Reader of a response as it arrives.
pub(crate) trait Reader: Send {
    /// Result of reading.
    type Reply: Send;

    /// Notes that a request is about to be sent.
    fn ask(&mut self) {}

    /// Starts a new response and discards everything read before.
    fn begin(&mut self);

    /// Reads the next bytes. Returns whether more are wanted.
    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure>;

    /// Returns the reply. Called when no more bytes come or none are wanted.
    fn end(&mut self) -> Result<Self::Reply, Failure>;
}

/// Progress of reading a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes are wanted.
    More,
    /// Everything needed has arrived.
    Done,
}

/// Failure of an attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Error, with the pause that the server asks for.
    pub(crate) error: Error,
    /// Whether another attempt may succeed.
    is_passing: bool,
}

impl Failure {
    /// Creates a failure that another attempt may overcome.
    pub(crate) fn passing(error: Error) -> Self {
        Self { error, is_passing: true }
    }

    /// Creates a failure that another attempt would meet again.
    pub(crate) fn lasting(error: Error) -> Self {
        Self { error, is_passing: false }
    }

    /// Creates the failure for a response that is not what an endpoint of this kind sends.
    pub(crate) fn broken(what: &str) -> Self {
        let message = format!("the model's endpoint {what}; retry later");
        Self::passing(Error::new(ErrorKind::Unavailable, "ENDPOINT_FAILED", message))
    }
}

/// Reply and the number of requests it took.
#[derive(Debug)]
pub(crate) struct Called<T> {
    pub(crate) reply: T,
    pub(crate) calls: u32,
}

/// Connection for one operation of one endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    http: Client,
    address: Url,
    headers: HeaderMap,
    window: u32,
    attempts: u32,
    timeout: Duration,
    idle_timeout: Duration,
    /// Bounds the running and the waiting requests together.
    room: Gate,
    /// Bounds the running requests.
    running: Gate,
    /// Bounds bulk requests, so that they do not take all the room.
    bulk: Gate,
    rate: Option<RateLimit>,
    budget: RetryBudget,
}

impl Connection {
    /// Creates a connection for `operation`, such as `chat/completions`. Reads files, for the
    /// certificates that the system trusts.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, and [`ErrorKind::WrongState`]
    /// if there are no certificates to trust.
    pub(crate) fn try_new(
        config: &EndpointConfig,
        key: Option<&EndpointKey>,
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
            // Leaves one of the running requests to interactive callers.
            bulk: Gate::new(
                "the queue of the model's endpoint",
                config.max_concurrency.saturating_sub(1).max(1),
                ROOM_PAUSE,
            ),
            rate: config.requests_per_minute.map(|rate| RateLimit::new(rate, now)),
            budget: RetryBudget::new(now),
        })
    }

    /// Returns a permit to run or wait.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] at once if there is no room.
    pub(crate) fn admit(&self) -> Result<Permit, Error> {
        self.room.try_enter(1)
    }

    /// Waits for a permit as bulk work and for one to run or wait. Returns both.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] if there is no room before `deadline`.
    pub(crate) async fn admitted(&self, deadline: Instant) -> Result<(Permit, Permit), Error> {
        let turn = self.bulk.enter(1, deadline).await?;
        Ok((turn, self.room.enter(1, deadline).await?))
    }

    /// Sends `body` and reads the reply. Retries transient failures within the number of attempts
    /// (at most `most`), the retry budget and the deadline.
    ///
    /// # Errors
    /// Returns the error of the last attempt, [`ErrorKind::DeadlineExceeded`] if the deadline
    /// passes, and [`ErrorKind::Exhausted`] if the running requests leave no room in time, or at
    /// once if the rate limit has none in time.
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
                // The reply is complete, whether the response ended or not.
                drop(tokio::time::timeout(END_PATIENCE, response.chunk()).await);
                break;
            }
        }
        reader.end()
    }

    /// Waits for `next`. Fails if the server is silent for the idle timeout.
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

    /// Reads a response without success and returns the failure that it means.
    async fn refusal(&self, mut response: Response) -> Failure {
        let status = response.status();
        let pause = retry_after(response.headers(), SystemClock.now());
        let mut said = Vec::new();
        // A refusal counts even if its text does not arrive.
        while let Ok(Some(bytes)) = self.awaited(response.chunk()).await
            && said.len() < MOST_REFUSAL_BYTES
        {
            said.extend_from_slice(&bytes);
        }
        judge(&Refusal { status, pause, said: &said, window: self.window })
    }
}

/// Response without success.
struct Refusal<'a> {
    status: StatusCode,
    pause: Option<Duration>,
    /// Body. It may repeat the prompt, so it is searched but never shown.
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
            // OpenAI's code for an account without credit. Retrying does not help.
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

/// Words with which OpenAI, Azure, vLLM, llama.cpp and Ollama refuse a conversation that is too
/// long.
const TOO_LONG_WORDS: [&str; 5] = [
    "context_length_exceeded",
    "context length",
    "context size",
    "context window",
    "exceed_context_size",
];

/// Returns the error for a conversation that does not fit into the window.
pub(crate) fn too_long(window: u32) -> Error {
    let message = format!(
        "the conversation and its reply are longer than the model's window, which is said to be \
         {window} tokens"
    );
    Error::new(ErrorKind::InvalidInput, "CONTEXT_TOO_LONG", message)
}

/// Returns the failure for an error of the connection, without the address, which callers must not
/// see.
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
        // No redirects: a request with a key must not go to another address.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("clew/", env!("CARGO_PKG_VERSION")))
        // Without TLS no certificates are needed, and a minimal system may have none.
        .tls_built_in_root_certs(address.scheme() == "https");
    let is_this_machine = match address.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    if is_this_machine {
        // A proxy would resolve this address to its own machine.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| {
        let message = "cannot make an HTTP client; check the system's certificates";
        Error::new(ErrorKind::WrongState, "NO_CLIENT", message).with_source(error)
    })
}

fn headers(flavour: Flavour, key: Option<&EndpointKey>) -> Result<HeaderMap, Error> {
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
        let key = EndpointKey::try_new("hush").unwrap();
        let openai = headers(Flavour::Openai, Some(&key)).unwrap();
        assert_eq!(openai[AUTHORIZATION], "Bearer hush");
        let azure = headers(Flavour::Azure, Some(&key)).unwrap();
        assert_eq!(azure["api-key"], "hush");
        assert!(!format!("{openai:?} {azure:?}").contains("hush"));
    }
}
