//! The configuration section for reaching an endpoint.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clew_core::{Error, ErrorKind, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Configuration of an endpoint that serves one language model. It never contains the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointConfig {
    /// Address that `/chat/completions` is appended to, such as `http://host:8000/v1`. For Azure,
    /// the address of the resource, `https://name.openai.azure.com`. Over `http://`, anyone on the
    /// network path can read the conversation and the key. Required.
    pub url: String,
    /// Name of the model as the server knows it. For Azure, the name of the deployment. Required.
    pub model: String,
    /// Environment variable that holds the key. Excludes `api_key_file`. With neither, no key is
    /// sent.
    pub api_key_env: Option<String>,
    /// File that holds the key and nothing else. Excludes `api_key_env`.
    pub api_key_file: Option<PathBuf>,
    /// Dialect of the server.
    pub flavour: Flavour,
    /// Version of Azure's API, such as `2024-10-21`. Required for Azure, and allowed only there.
    pub api_version: Option<String>,
    /// Maximum number of tokens of a conversation and its reply together, 256 to 100,000,000, as
    /// the server is set up. If you set more than the server takes, it refuses long conversations.
    pub window: u32,
    /// Maximum number of concurrent requests, 1 to 1,000. More raises throughput until the server's
    /// batch is full.
    pub max_concurrency: u32,
    /// Maximum number of requests that wait for a running one to end, 0 to 100,000. Any further
    /// request is refused at once.
    pub max_waiting: u32,
    /// Maximum number of requests started per minute, 1 to 1,000,000, retries included. Unlimited
    /// if absent.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of attempts per request, 1 to 10.
    pub attempts: u32,
    /// Maximum duration of one attempt in seconds, its reply included, 1 to 3,600.
    pub timeout_secs: u64,
    /// Maximum time in seconds that the server may send nothing, 1 to 3,600. A server that does not
    /// stream sends nothing until its whole reply is complete.
    pub idle_timeout_secs: u64,
    /// Maximum number of tokens that the model may think before it replies, 0 to 1,000,000. If
    /// greater than 0, requests suit OpenAI's reasoning models: they use `max_completion_tokens`,
    /// and have no temperature and no stop texts.
    pub thinking_tokens: u32,
    /// Method that holds the model to a format. A reply is checked in every case.
    pub structured_output: StructuredOutput,
}

/// Dialect of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// OpenAI's dialect, which vLLM, Ollama, llama.cpp and most others use too.
    #[default]
    Openai,
    /// Azure's dialect: deployments in the path, a version in the query, the key in a separate
    /// header.
    Azure,
}

/// Method that holds a model to a format. A reply is checked in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The server admits only tokens that the JSON schema allows.
    #[default]
    JsonSchema,
    /// The server admits only JSON, and the prompt states the schema.
    JsonObject,
    /// The prompt states the format, for servers without support for formats.
    Prompt,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            api_key_env: None,
            api_key_file: None,
            flavour: Flavour::Openai,
            api_version: None,
            window: 8192,
            max_concurrency: 8,
            max_waiting: 256,
            requests_per_minute: None,
            attempts: 4,
            timeout_secs: 300,
            idle_timeout_secs: 60,
            thinking_tokens: 0,
            structured_output: StructuredOutput::JsonSchema,
        }
    }
}

impl EndpointConfig {
    /// Checks that the settings are present, consistent and in range. `section` is the section of
    /// the configuration, for the names of the keys in errors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with every invalid key if there is one.
    pub fn validate(&self, section: &str) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut refuse = |key: &str, problem: String| {
            violations.push(format!("{section}.{key}"), problem);
        };
        if let Err(problem) = self.base() {
            refuse("url", problem.to_owned());
        }
        if self.model.trim().is_empty() {
            refuse("model", "expected the name of a model, got none".to_owned());
        }
        if self.api_key_env.is_some() && self.api_key_file.is_some() {
            let problem = "expected either `api_key_env` or `api_key_file`, got both";
            refuse("api_key_file", problem.to_owned());
        }
        if self.api_key_env.as_deref().is_some_and(|name| name.is_empty() || name.contains('=')) {
            // The value is not repeated: a user who confuses name and key has put the key here.
            let problem = "expected the name of an environment variable, got something else";
            refuse("api_key_env", problem.to_owned());
        }
        match (self.flavour, self.api_version.as_deref()) {
            (Flavour::Azure, None | Some("")) => {
                refuse("api_version", "expected a version for Azure, got none".to_owned());
            }
            (Flavour::Openai, Some(_)) => {
                refuse("api_version", "expected none, which only Azure has".to_owned());
            }
            (Flavour::Azure, Some(_)) | (Flavour::Openai, None) => {}
        }
        let ranges = [
            ("window", u64::from(self.window), 256, 100_000_000),
            ("max_concurrency", u64::from(self.max_concurrency), 1, 1000),
            ("max_waiting", u64::from(self.max_waiting), 0, 100_000),
            ("requests_per_minute", u64::from(self.requests_per_minute.unwrap_or(1)), 1, 1_000_000),
            ("attempts", u64::from(self.attempts), 1, 10),
            ("timeout_secs", self.timeout_secs, 1, 3600),
            ("idle_timeout_secs", self.idle_timeout_secs, 1, 3600),
            ("thinking_tokens", self.thinking_tokens.into(), 0, 1_000_000),
        ];
        for (key, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                refuse(key, format!("expected {low} to {high}, got {value}"));
            }
        }
        violations.into_result()
    }

    /// Reads the key from the configured environment variable or file, without white space around
    /// it. Returns `None` if neither is configured.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if the key is missing, cannot be read, or cannot be sent
    /// in a header.
    pub fn load_key(&self) -> Result<Option<EndpointKey>, Error> {
        let absent = |key: &str, problem: String| {
            let message = format!("`{key}` names no key: {problem}");
            Error::new(ErrorKind::WrongState, "KEY_MISSING", message)
        };
        let (place, text) = match (&self.api_key_env, &self.api_key_file) {
            (Some(variable), _) => {
                let read = std::env::var(variable).map_err(|error| {
                    let problem = match error {
                        std::env::VarError::NotPresent => "the variable is not set",
                        std::env::VarError::NotUnicode(_) => "the variable is not text",
                    };
                    absent("api_key_env", problem.to_owned())
                })?;
                ("api_key_env", read)
            }
            (None, Some(file)) => ("api_key_file", read_key(file, absent)?),
            (None, None) => return Ok(None),
        };
        let key =
            EndpointKey::try_new(&text).map_err(|problem| absent(place, problem.to_owned()))?;
        Ok(Some(key))
    }

    /// Returns the address for requests of `operation`, such as `chat/completions`.
    pub(crate) fn address(&self, operation: &str) -> Result<Url, &'static str> {
        let mut url = self.base()?;
        {
            let mut path = url.path_segments_mut().map_err(|()| EXPECTED_URL)?;
            path.pop_if_empty();
            if self.flavour == Flavour::Azure {
                path.extend(["openai", "deployments", &self.model]);
            }
            path.extend(operation.split('/'));
        }
        if let (Flavour::Azure, Some(version)) = (self.flavour, &self.api_version) {
            url.query_pairs_mut().append_pair("api-version", version);
        }
        Ok(url)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_secs)
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_timeout_secs)
    }

    /// Returns the address or a description of the problem. The description does not repeat the
    /// configured text, which may hold a password.
    fn base(&self) -> Result<Url, &'static str> {
        let url = Url::parse(&self.url).map_err(|_| EXPECTED_URL)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(EXPECTED_URL);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("expected no credentials in it, use `api_key_env` or `api_key_file`");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("expected no `?` and no `#` in it");
        }
        Ok(url)
    }
}

const EXPECTED_URL: &str = "expected http://host:port/path or https://host/path";

/// Maximum length of a key file in bytes.
const MOST_KEY_BYTES: u64 = 64 << 10;

fn read_key(file: &Path, absent: impl Fn(&str, String) -> Error) -> Result<String, Error> {
    let refuse = |problem: &str| absent("api_key_file", problem.to_owned());
    let unreadable = |error: std::io::Error| refuse("the file cannot be read").with_source(error);
    let length = std::fs::metadata(file).map_err(unreadable)?.len();
    if length > MOST_KEY_BYTES {
        return Err(refuse("the file is too long for a key"));
    }
    std::fs::read_to_string(file).map_err(unreadable)
}

/// Key of an endpoint. `Debug` and serialization mask it.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointKey(String);

impl EndpointKey {
    /// Creates a key from `text` without the white space around it.
    ///
    /// # Errors
    /// Returns a description of the problem if the key is empty or has other characters than
    /// visible ASCII.
    pub fn try_new(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("it is empty"),
            key if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self(key.to_owned())),
            _ => Err("it holds more than visible ASCII characters"),
        }
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for EndpointKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sound() -> EndpointConfig {
        EndpointConfig {
            url: "http://localhost:8000/v1".to_owned(),
            model: "qwen".to_owned(),
            ..EndpointConfig::default()
        }
    }

    #[test]
    fn every_key_at_fault_is_named() {
        assert!(sound().validate("model").is_ok());
        let unsound = EndpointConfig {
            url: "localhost:8000".to_owned(),
            model: String::new(),
            api_key_env: Some("A=B".to_owned()),
            api_key_file: Some(PathBuf::from("key")),
            api_version: Some("2024-10-21".to_owned()),
            window: 0,
            max_concurrency: 0,
            max_waiting: 1 << 20,
            requests_per_minute: Some(0),
            attempts: 0,
            timeout_secs: 0,
            idle_timeout_secs: 0,
            thinking_tokens: 2_000_000,
            ..EndpointConfig::default()
        };
        let error = unsound.validate("model").unwrap_err();
        let fields = error.fields_at_fault();
        let keys = [
            "url",
            "model",
            "api_key_file",
            "api_key_env",
            "api_version",
            "window",
            "max_concurrency",
            "max_waiting",
            "requests_per_minute",
            "attempts",
            "timeout_secs",
            "idle_timeout_secs",
            "thinking_tokens",
        ];
        assert_eq!(fields, keys.map(|key| format!("model.{key}")));
        let azure = EndpointConfig { flavour: Flavour::Azure, ..sound() };
        assert_eq!(azure.validate("m").unwrap_err().violations()[0].field, "m.api_version");
    }

    #[test]
    fn addresses_hold_no_credentials_and_problems_do_not_repeat_them() {
        for url in ["http://u:hush@h/v1", "hush", "https://h/v1?key=hush", "ftp://hush/"] {
            let config = EndpointConfig { url: url.to_owned(), ..sound() };
            let error = config.validate("model").unwrap_err();
            assert_eq!(error.violations()[0].field, "model.url");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }

    #[test]
    fn requests_go_below_the_address_or_to_the_deployment() {
        for url in ["http://h:8000/v1", "http://h:8000/v1/"] {
            let config = EndpointConfig { url: url.to_owned(), ..sound() };
            let address = config.address("chat/completions").unwrap();
            assert_eq!(address.as_str(), "http://h:8000/v1/chat/completions");
        }
        let azure = EndpointConfig {
            url: "https://name.openai.azure.com".to_owned(),
            model: "my model".to_owned(),
            flavour: Flavour::Azure,
            api_version: Some("2024-10-21".to_owned()),
            ..sound()
        };
        assert_eq!(
            azure.address("chat/completions").unwrap().as_str(),
            "https://name.openai.azure.com/openai/deployments/my%20model/chat/completions\
             ?api-version=2024-10-21"
        );
    }

    #[test]
    fn unknown_keys_are_refused_and_the_key_is_none_of_them() {
        assert!(toml::from_str::<EndpointConfig>("api_key = 'hush'").is_err());
        let config: EndpointConfig =
            toml::from_str("flavour = 'azure'\nstructured_output = 'json_object'").unwrap();
        assert_eq!(config.flavour, Flavour::Azure);
        assert_eq!(config.structured_output, StructuredOutput::JsonObject);
    }

    #[test]
    fn a_key_is_read_from_its_file_and_shown_nowhere() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b" hush\n").unwrap();
        let path = Some(file.path().to_owned());
        let config = EndpointConfig { api_key_file: path, ..sound() };
        let key = config.load_key().unwrap().unwrap();
        assert_eq!(key.reveal(), "hush");
        assert_eq!(format!("{key:?}"), "***");
        assert_eq!(serde_json::to_string(&key).unwrap(), "\"***\"");
        assert_eq!(sound().load_key().unwrap(), None);
    }

    #[test]
    fn a_missing_or_unusable_key_is_an_error_that_does_not_show_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"hush\nhush").unwrap();
        let file_of = |path: &Path| EndpointConfig {
            api_key_file: Some(path.to_owned()),
            ..EndpointConfig::default()
        };
        let env = Some("CLEW_TEST_NO_SUCH_VARIABLE".to_owned());
        let unset = EndpointConfig { api_key_env: env, ..sound() };
        for config in [file_of(file.path()), file_of(Path::new("no/such/file")), unset] {
            let error = config.load_key().unwrap_err();
            assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "KEY_MISSING"));
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }
}
