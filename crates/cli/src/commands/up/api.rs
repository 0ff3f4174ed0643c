//! The HTTP API beside the worker of `up`.

use std::net::SocketAddr;

use backstop::Backstop;
use backstop_server::{Api, ListenError, TlsSettings, Webhooks, bind, serve};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::otlp::Exporter;
use crate::problem::Problem;

/// An API that listens.
pub(super) struct ListeningApi {
    api: Api,
    webhooks: Webhooks,
    served: JoinHandle<Result<(), ListenError>>,
}

/// The API listens as long as this is there.
pub(super) type ApiGuard = oneshot::Sender<()>;

impl ListeningApi {
    /// Listens where it is told, or where the configuration says.
    pub(super) async fn start(
        engine: &Backstop,
        listen: Option<SocketAddr>,
        exporter: Option<&Exporter>,
        app: &App,
    ) -> Result<(Self, ApiGuard), Problem> {
        let server = &app.settings.server;
        let mut settings = server.settings.clone();
        if let Some((certificate, key)) = &server.tls {
            settings.tls = Some(TlsSettings::load(certificate, key)?);
        }
        settings.limits.grace = app.settings.grace;
        settings.lease = Some(app.settings.lease);
        settings.scale = app.settings.scale.clone();
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let api = Api::new(engine.clone(), settings);
        if let Some(exporter) = exporter {
            let requests = exporter.requests();
            api.on_answer(move |answered| requests.answered(&answered));
            let watch = exporter.watch();
            api.watch("program", move || watch.health());
        }
        let listener = bind(listen.unwrap_or(server.listen), &api).await?;
        let address = listener.local_addr().map_err(|error| Problem::failed("listen", error.to_string()))?;
        app.out.note(&format!("api: {scheme}://{address}"));
        app.out.note(&format!("page: {scheme}://{address}/"));
        if scheme == "http" && !address.ip().is_loopback() {
            app.out.warn(
                "tokens and payloads travel unencrypted: set server.tls_cert and server.tls_key, or use a proxy",
            );
        }
        let (open, closed) = oneshot::channel::<()>();
        let stop = async {
            // That nobody holds it any more says as much as a word.
            let _ = closed.await;
        };
        let webhooks = api.deliver_webhooks().await;
        let served = tokio::spawn(serve(listener, api.clone(), stop));
        Ok((Self { api, webhooks, served }, open))
    }

    /// What listens.
    pub(super) const fn api(&self) -> &Api {
        &self.api
    }

    /// Waits until the last request has ended.
    pub(super) async fn end(self) -> Result<(), Problem> {
        let served = self.served.await;
        self.webhooks.stop().await;
        Ok(served.map_err(|error| Problem::failed("listen", error.to_string()))??)
    }
}

impl From<ListenError> for Problem {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::Store(error) => error.into(),
            error @ ListenError::NoToken { .. } => Self::refused("no_token", error.to_string()),
            ListenError::Engine(error) => error.into(),
            error @ ListenError::Tls { .. } => Self::usage("tls", error.to_string()),
            error => Self::failed("listen", error.to_string()),
        }
    }
}
