//! Signals.

/// Signals of this process: Ctrl-C, and for servers SIGTERM. None is lost between two calls of `next`.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    heard: Vec<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Ctrl-C only.
    pub(crate) fn interrupt() -> Self {
        Self::listen(Wanted::Interrupt)
    }

    /// Ctrl-C and SIGTERM.
    pub(crate) fn stop() -> Self {
        Self::listen(Wanted::Stop)
    }

    #[cfg(unix)]
    fn listen(wanted: Wanted) -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds: &[SignalKind] = match wanted {
            Wanted::Interrupt => &[SignalKind::interrupt()],
            Wanted::Stop => &[SignalKind::interrupt(), SignalKind::terminate()],
        };
        // A signal whose handler cannot be installed keeps its default effect, which ends the process.
        Self {
            heard: kinds.iter().filter_map(|kind| signal(*kind).ok()).collect(),
        }
    }

    #[cfg(not(unix))]
    fn listen(_: Wanted) -> Self {
        Self {}
    }

    /// Returns at the next signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let any = self
                .heard
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready());
            if any {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }

    /// Returns at the next signal.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

enum Wanted {
    Interrupt,
    Stop,
}
