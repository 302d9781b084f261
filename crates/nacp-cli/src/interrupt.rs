//! Ctrl-C, and what a service manager sends.
//!
//! What this module keeps true: from when it is made, no interrupt is missed, not even one that comes while the one
//! before it is being dealt with.

use std::io;

use crate::failure::Failure;

/// Interrupts, one after another.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Listens from now on; the program is no longer ended by them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> Result<Self, Failure> {
        Self::listen()
            .map_err(|error| Failure::failed(format_args!("cannot listen to Ctrl-C: {error}")))
    }

    #[cfg(unix)]
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(windows)]
    fn listen() -> io::Result<Self> {
        let interrupt = tokio::signal::windows::ctrl_c()?;
        Ok(Self { interrupt })
    }

    /// Waits for the next one. Cancel safe.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(windows)]
        let _ = self.interrupt.recv().await; // it never ends
    }
}

/// Requests to read again what was renewed (SIGHUP); there are none on Windows.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Listens from now on; the program is no longer ended by them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> Result<Self, Failure> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = signal(SignalKind::hangup()).map_err(|error| {
                Failure::failed(format_args!("cannot listen to SIGHUP: {error}"))
            })?;
            Ok(Self { signal })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one. Cancel safe.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        let _ = self.signal.recv().await; // it never ends
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}
