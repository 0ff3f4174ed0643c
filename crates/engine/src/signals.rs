//! The signals that ask a process to stop.

/// Listens from this call on, and resolves at SIGINT or SIGTERM: one that comes before anybody waits is remembered.
///
/// # Panics
/// Outside a runtime of tokio.
#[cfg(unix)]
pub fn stop_asked() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let handlers = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        // A process that cannot install its handlers still stops, by the default action of the signal.
        let (Ok(mut interrupt), Ok(mut terminate)) = handlers else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Resolves when the process is asked to stop.
#[cfg(not(unix))]
pub async fn stop_asked() {
    let _ = tokio::signal::ctrl_c().await;
}
