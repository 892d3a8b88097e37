//! The HTTP front of a gateway: what it offers, and where.

use std::net::SocketAddr;

use clew_client::Services;
use clew_console::{ConsoleConfig, Place};
use clew_core::{Error, ErrorKind};
use clew_http::{Front, HttpConfig};
use clew_mcp::{McpConfig, McpServer};
use clew_node::Stop;
use clew_openai::UserHeaders;
use clew_tls::Tls;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A listener for HTTP that is bound and not served yet.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    config: HttpConfig,
}

impl HttpListener {
    /// Binds the configured address, or else `default`. Returns `None` if HTTP is off, which it is
    /// as well if `default` is taken: nobody asked for that address.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration is invalid, and
    /// [`ErrorKind::Unavailable`] if the configured address is taken.
    pub async fn bind(
        config: HttpConfig,
        default: Option<SocketAddr>,
    ) -> Result<Option<Self>, Error> {
        config.validate()?;
        let failed = |error, what: &dyn std::fmt::Display| {
            let problem = format!("cannot listen on `{what}`; choose another `http.listen`");
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
        };
        let bound = match (config.listen.as_deref(), default) {
            (Some(""), _) | (None, None) => return Ok(None),
            (Some(address), _) => {
                TcpListener::bind(address).await.map_err(|error| failed(error, &address))?
            }
            (None, Some(address)) => match TcpListener::bind(address).await {
                Ok(bound) => bound,
                Err(error) => {
                    tracing::warn!(error = failed(error, &address).chain(), "HTTP is off");
                    return Ok(None);
                }
            },
        };
        let address = bound
            .local_addr()
            .map_err(|error| Error::internal("the listener has no address").with_source(error))?;
        Ok(Some(Self { listener: bound, address, config }))
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves all shapes of HTTP over `services`. `is_cluster` says whether these are the services
    /// of a cluster, of which the console then has a page. Returns the function that stops it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration is invalid, or the secret of the
    /// console is not there.
    pub fn start(
        self,
        services: Services,
        tls: Option<Tls>,
        mcp: McpConfig,
        console: &ConsoleConfig,
        is_cluster: bool,
    ) -> Result<Stop, Error> {
        let Self { listener, address, config } = self;
        let users = UserHeaders { open_webui: config.open_webui_users };
        let front = Front::new(services.clone(), config)?;
        let mut front = front.merge(clew_openai::routes(services.clone(), users));
        if mcp.enabled {
            front = front.nest("/mcp", clew_mcp::router(McpServer::new(services.clone(), mcp)));
        }
        if console.enabled {
            let place = Place { is_cluster, is_encrypted: tls.is_some() };
            front = front.merge(clew_console::routes(services, console, place)?);
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        eprintln!("HTTP and JSON on {scheme}://{address}");
        if console.enabled {
            eprintln!("console on {scheme}://{address}{}/", console.base_path);
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = tokio::spawn(async move {
            // A sender that is dropped stops it just the same.
            let served = front.serve(listener, tls, async { drop(stopped.await) }).await;
            if let Err(error) = served {
                tracing::error!(error = error.chain(), "HTTP is no longer served");
            }
        });
        Ok(Box::new(move |deadline| {
            Box::pin(async move {
                drop(stop);
                let ended = tokio::time::timeout_at(deadline.into(), &mut serving).await;
                serving.abort();
                match ended {
                    Ok(ended) => ended.map_err(|panic| {
                        Error::internal("the server of HTTP panicked").with_source(panic)
                    }),
                    Err(_elapsed) => Err(Error::deadline("requests of HTTP were finished")),
                }
            })
        }))
    }
}
