//! Configuration: defaults < file < environment < flags; an unknown key is an error.

use std::collections::BTreeMap;
use std::path::Path;

use clew_core::Error;
use figment::providers::{Env, Format, Serialized, Toml};
use figment::{Figment, Metadata};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Prefix of environment variables; sections are separated by two underscores:
/// `CLEW_ENCODER__THREADS=4` sets `encoder.threads`.
pub const ENVIRONMENT_PREFIX: &str = "CLEW_";

/// Loads a configuration: the defaults of `T`, overlaid by the TOML file, then by the environment,
/// then by `flags` (only what the command line set).
///
/// # Errors
/// Returns the errors of [`Sources::gather`] and [`Sources::read`].
pub fn load<T>(file: Option<&Path>, flags: impl Serialize) -> Result<T, Error>
where
    T: Default + Serialize + DeserializeOwned,
{
    Sources::gather(file, flags)?.read()
}

/// The keys that file, environment and flags set.
///
/// A configuration of several types whose keys stand side by side is read type by type. A type that
/// has the others as fields with `serde(flatten)` shows the same keys, but it should not read
/// them: serde then forgets in which table a key at fault is, and which source set it.
pub struct Sources(Figment);

impl Sources {
    /// Gathers the TOML file, overlaid by the environment, then by `flags` (only what the command
    /// line set).
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the file if there is none.
    pub fn gather(file: Option<&Path>, flags: impl Serialize) -> Result<Self, Error> {
        let mut figment = Figment::new();
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
        Ok(Self(figment.merge(environment).merge(Serialized::defaults(flags))))
    }

    /// Reads the keys of `T`, on top of its defaults. Ignores other keys, unless `T` refuses them.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the key at fault.
    pub fn read<T>(&self) -> Result<T, Error>
    where
        T: Default + Serialize + DeserializeOwned,
    {
        let figment = self.0.clone().join(Serialized::defaults(T::default()));
        figment.extract().map_err(|error| describe(&error))
    }

    /// Refuses top-level keys that `config` does not have.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the first such key, with those that
    /// are known.
    pub fn refuse_others_than(&self, config: &impl Serialize) -> Result<(), Error> {
        let known = names(&Figment::from(Serialized::defaults(config)))?;
        let set = names(&self.0)?;
        let Some(unknown) = set.keys().find(|name| !known.contains_key(*name)) else {
            return Ok(());
        };
        let known: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
        let place = place(self.0.find_metadata(unknown));
        let known = known.join(", ");
        let problem = format!("unknown field: found `{unknown}`, expected one of {known}{place}");
        Err(Error::invalid(unknown, problem))
    }
}

/// Returns the top-level keys.
fn names(figment: &Figment) -> Result<BTreeMap<String, IgnoredAny>, Error> {
    figment.extract().map_err(|error| describe(&error))
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
    Error::invalid(key, format!("{}{}", error.kind, place(error.metadata.as_ref())))
}

fn place(source: Option<&Metadata>) -> String {
    source.map(|source| format!(" ({})", source.name)).unwrap_or_default()
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

    /// The keys of two types side by side, as people see them.
    #[derive(Default, Serialize)]
    struct Both {
        #[serde(flatten)]
        named: Named,
        #[serde(flatten)]
        queued: Queued,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Named {
        name: Option<String>,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Queued {
        queue: Queue,
    }

    fn both(text: &str) -> Result<Both, Error> {
        let sources = Sources::gather(Some(file(text).path()), Flags { name: None })?;
        sources.refuse_others_than(&Both::default())?;
        Ok(Both { named: sources.read()?, queued: sources.read()? })
    }

    #[test]
    fn types_whose_keys_stand_side_by_side_are_read_one_by_one() {
        let Both { named, queued } = both("name = 'from file'\n[queue]\ntokens = 11").unwrap();
        assert_eq!(named, Named { name: Some("from file".to_owned()) });
        assert_eq!(queued, Queued { queue: Queue { tokens: 11, wait: 20 } });
    }

    #[test]
    fn a_key_that_none_of_the_types_has_is_named_with_its_path_and_source() {
        let refused = |text: &str| both(text).map(|_| ()).unwrap_err().message().to_owned();
        assert_eq!(
            refused("nmae = 'x'"),
            "`nmae`: unknown field: found `nmae`, expected one of `name`, `queue` (TOML file)"
        );
        let nested = refused("[queue]\ntoken = 1");
        assert!(nested.starts_with("`queue.token`: unknown field"), "{nested}");
        assert!(nested.contains("`tokens`") && nested.ends_with("(TOML file)"), "{nested}");
        let wrong = refused("name = 1");
        assert!(wrong.starts_with("`name`: ") && wrong.ends_with("(TOML file)"), "{wrong}");
    }
}
