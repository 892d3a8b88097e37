//! Connects to S3-compatible storage.
//!
//! Requests go through the HTTP client that the storage engine depends on anyway. The object
//! store's own connector would add a second HTTP client and a second cryptography library.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential, S3ConditionalPut};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, HttpService,
};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::storage::bulk::BulkRemoval;
use crate::storage::requests::StorageRequest;

/// Maximum time to establish a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time for which a server may send nothing. A network that is cut loses requests silently,
/// and a caller that waits for them holds up its shard. Sending a part of an object takes far less.
const SILENCE_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time of one request, including its body and answer. The engine writes and reads at most
/// some 16 MiB at once.
const REQUEST_PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a failed request is no longer repeated.
const RETRY_PATIENCE: Duration = Duration::from_secs(20);
const MAX_RETRIES: usize = 5;
/// First and longest pause before a request is repeated.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Settings for reaching S3-compatible storage.
///
/// Values that are not set here come from the environment, as in other tools: `AWS_ENDPOINT_URL`,
/// `AWS_REGION`, `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, and the
/// identities that a cloud gives its machines and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectStoreSettings {
    /// Address of the server, `https://host:port`; also `AWS_ENDPOINT_URL`. Without it, the address
    /// of AWS for the region.
    pub endpoint: Option<String>,
    /// Region; also `AWS_REGION`. Without it, `us-east-1`, which servers other than AWS accept as
    /// theirs.
    pub region: Option<String>,
    /// Name of the access key; also `AWS_ACCESS_KEY_ID`. Needs `secret_access_key`. Without it, the
    /// identity that a cloud gives the machine or pod.
    pub access_key_id: Option<String>,
    /// Secret of the access key; also `AWS_SECRET_ACCESS_KEY`. Better set in the environment than
    /// in a file. It is never shown.
    pub secret_access_key: Option<Secret>,
    /// Whether an endpoint without TLS, which begins with `http://`, is allowed. With it, anybody
    /// on the network path can read and change the stored data.
    pub allow_http: bool,
    /// Whether the bucket is part of the host name. Otherwise it is the first part of the path,
    /// which every server understands.
    pub virtual_hosted: bool,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
pub struct Secret(String);

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl ObjectStoreSettings {
    /// Returns the key of a setting that is wrong, as a data directory names it, and the problem.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            let problem = "expected `access_key_id` and `secret_access_key`, got only one of them";
            return Some(("storage.s3.access_key_id", problem.to_owned()));
        }
        let endpoint = self.endpoint.as_deref()?;
        let schemes: &[&str] = if self.allow_http { &["https", "http"] } else { &["https"] };
        let is_good = url::Url::parse(endpoint)
            .is_ok_and(|url| url.has_host() && schemes.contains(&url.scheme()));
        let problem = || {
            let hint = if self.allow_http { "" } else { " (or http:// with `allow_http`)" };
            format!("expected https://host:port{hint}, got `{endpoint}`")
        };
        (!is_good).then(|| ("storage.s3.endpoint", problem()))
    }

    /// Opens a bucket as a store, to list and read what others keep there. Reads files, for the
    /// certificates that the system trusts.
    ///
    /// # Errors
    /// Returns the error of settings that contradict each other.
    pub fn open(&self, bucket: &str) -> object_store::Result<Arc<AmazonS3>> {
        Ok(Arc::new(self.builder(bucket).build()?))
    }

    /// Opens the bucket as the store of a data directory.
    pub(crate) fn connect(&self, bucket: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
        // The fence and the registry depend on conditional puts.
        let builder = self.builder(bucket).with_conditional_put(S3ConditionalPut::ETagMatch);
        let store = builder.clone().with_disable_bulk_delete(true).build()?;
        let credentials = Arc::clone(store.credentials());
        let in_bulk =
            builder.with_credentials(credentials).with_disable_bulk_delete(false).build()?;
        Ok(Arc::new(BulkRemoval::new(Arc::new(store), Arc::new(in_bulk))))
    }

    fn builder(&self, bucket: &str) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let (Some(key), Some(secret)) = (&self.access_key_id, &self.secret_access_key) {
            // Replaces all credentials of the environment, whose token would belong to another key.
            let credential =
                AwsCredential { key_id: key.clone(), secret_key: secret.0.clone(), token: None };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        let backoff = BackoffConfig {
            init_backoff: RETRY_PAUSE.0,
            max_backoff: RETRY_PAUSE.1,
            ..BackoffConfig::default()
        };
        let retry =
            RetryConfig { backoff, max_retries: MAX_RETRIES, retry_timeout: RETRY_PATIENCE };
        if self.allow_http {
            builder = builder.with_allow_http(true);
        }
        builder
            .with_virtual_hosted_style_request(self.virtual_hosted)
            .with_retry(retry)
            .with_http_connector(Connector)
    }
}

/// Builder of HTTP clients.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options
            .get_config_value(&ClientConfigKey::AllowHttp)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_PATIENCE)
            .timeout(REQUEST_PATIENCE)
            .read_timeout(SILENCE_PATIENCE)
            .https_only(!allows_http)
            .redirect(reqwest::redirect::Policy::none())
            // Ranges refer to the bytes as they are stored.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .build()
            .map_err(|error| object_store::Error::Generic { store: "S3", source: error.into() })?;
        Ok(HttpClient::new(Client(client)))
    }
}

#[derive(Debug)]
struct Client(reqwest::Client);

#[async_trait::async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        StorageRequest::of(&parts.method, parts.uri.query()).count();
        tracing::trace!(method = %parts.method, uri = %parts.uri, "request to the object store");
        let answered = self
            .0
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .body(reqwest::Body::wrap(body))
            .send()
            .await
            .map_err(http_error)?;
        let (status, headers) = (answered.status(), answered.headers().clone());
        // Read as a whole, so that an interrupted answer is repeated together with its request.
        let body = answered.bytes().await.map_err(http_error)?;
        let mut response = HttpResponse::new(body.into());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Converts an error to a kind that says whether a retry is safe. Removes the address, which may be
/// signed.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() {
        HttpErrorKind::Unknown
    } else {
        // The connection broke. It is not known whether the request was executed.
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint: &str, allow_http: bool) -> ObjectStoreSettings {
        let endpoint = Some(endpoint.to_owned());
        ObjectStoreSettings { endpoint, allow_http, ..ObjectStoreSettings::default() }
    }

    #[test]
    fn plain_http_has_to_be_allowed_and_keys_come_in_pairs() {
        assert_eq!(ObjectStoreSettings::default().problem(), None);
        for (endpoint, allow_http) in [("https://h:1", false), ("http://h:1", true)] {
            assert_eq!(settings(endpoint, allow_http).problem(), None);
        }
        for (endpoint, allow_http) in [("http://h:1", false), ("h:1", true), ("ftp://h", true)] {
            let (key, problem) = settings(endpoint, allow_http).problem().unwrap();
            assert_eq!(key, "storage.s3.endpoint");
            assert!(problem.contains(endpoint), "{problem}");
        }
        let half =
            ObjectStoreSettings { access_key_id: Some("k".to_owned()), ..Default::default() };
        assert_eq!(half.problem().unwrap().0, "storage.s3.access_key_id");
    }

    #[test]
    fn the_secret_is_shown_nowhere() {
        let secret = Some(Secret::from("hush".to_owned()));
        let settings = ObjectStoreSettings { secret_access_key: secret, ..Default::default() };
        assert!(!format!("{settings:?}").contains("hush"));
        assert!(!serde_json::to_string(&settings).unwrap().contains("hush"));
    }
}
