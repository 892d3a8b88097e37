//! Configuration: defaults < file < environment < flags; an unknown key is an error.

use std::path::Path;

use clew_core::Error;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prefix of environment variables; sections are separated by two underscores:
/// `CLEW_ENCODER__THREADS=4` sets `encoder.threads`.
pub const ENVIRONMENT_PREFIX: &str = "CLEW_";

/// Loads a configuration: the defaults of `T`, overlaid by the TOML file, then by the environment,
/// then by `flags` (only what the command line set).
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the key at fault, or the file if it cannot
/// be read.
pub fn load<T>(file: Option<&Path>, flags: impl Serialize) -> Result<T, Error>
where
    T: Default + Serialize + DeserializeOwned,
{
    let mut figment = Figment::from(Serialized::defaults(T::default()));
    if let Some(file) = file {
        if !file.is_file() {
            let problem = format!("there is no configuration file `{}`", file.display());
            return Err(Error::invalid("config", problem));
        }
        figment = figment.merge(Toml::file(file));
    }
    // Variables of the command-line tools and tests, which are not configuration keys.
    let environment = Env::prefixed(ENVIRONMENT_PREFIX)
        .ignore(&[
            "api_key",
            "ca",
            "client_certificate",
            "client_key",
            "endpoint",
            "log",
            "model_dir",
            "regenerate",
        ])
        .split("__");
    figment
        .merge(environment)
        .merge(Serialized::defaults(flags))
        .extract()
        .map_err(|error| describe(&error))
}

/// Returns the effective configuration as TOML, for people.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if a value has no TOML form.
pub fn render(config: &impl Serialize) -> Result<String, Error> {
    toml::to_string_pretty(config)
        .map_err(|error| Error::internal("the configuration has no TOML form").with_source(error))
}

fn describe(error: &figment::Error) -> Error {
    let key = if error.path.is_empty() { "config".to_owned() } else { error.path.join(".") };
    let place = error.metadata.as_ref().map(|metadata| format!(" ({})", metadata.name));
    Error::invalid(key, format!("{}{}", error.kind, place.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Config {
        name: String,
        queue: Queue,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Queue {
        tokens: u32,
        wait: u32,
    }

    impl Default for Config {
        fn default() -> Self {
            Self { name: "clew".to_owned(), queue: Queue::default() }
        }
    }

    impl Default for Queue {
        fn default() -> Self {
            Self { tokens: 10, wait: 20 }
        }
    }

    #[derive(Serialize, Default)]
    struct Flags {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'static str>,
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = file("name = 'from file'\n[queue]\ntokens = 11\n");
        let config: Config = load(Some(file.path()), Flags { name: Some("flag") }).unwrap();
        assert_eq!(
            config,
            Config { name: "flag".to_owned(), queue: Queue { tokens: 11, wait: 20 } }
        );
        let shown = render(&config).unwrap();
        assert!(shown.contains("tokens = 11"), "{shown}");
    }

    #[test]
    fn an_unknown_key_or_a_wrong_type_is_named() {
        for (text, key) in [("[queue]\ntoken = 1", "token"), ("[queue]\ntokens = 'x'", "tokens")] {
            let error = load::<Config>(Some(file(text).path()), Flags::default()).unwrap_err();
            assert!(error.message().contains(key), "{}", error.message());
        }
        let absent = load::<Config>(Some(Path::new("/nowhere.toml")), Flags::default());
        assert!(absent.unwrap_err().message().contains("/nowhere.toml"));
    }
}
