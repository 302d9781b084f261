//! Taking part as an App, from the command line.
//!
//! What this module keeps true: a command that ends by itself has told the others that it leaves, and does not wait
//! for those that do not answer; every error names the App and the address that it is about, and says what to do.

use std::future::Future;
use std::time::Duration;

use nact::{DialError, ListenError};
use napp::{App, Builder, CallError, ConnectError, Shutdown, StartError};

use crate::credentials;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::settings::{Caller, Flags};
use crate::target::Target;

/// How long the last acknowledgements may take when we leave. On a link that works they take a millisecond.
const LEAVE_TIME: Duration = Duration::from_millis(500);

/// Starts it.
///
/// # Errors
/// An address that cannot be listened at, mostly.
pub async fn start(builder: Builder) -> Result<App, Failure> {
    builder.start().await.map_err(|error| match &error {
        StartError::Listen(ListenError::Url(_) | ListenError::UnknownScheme { .. }) => {
            Failure::usage(&error)
        }
        StartError::Listen(ListenError::NoCertificate { url }) => Failure::usage(format_args!(
            "listening at {url} needs a certificate; give --tls-cert and --tls-key"
        )),
        _ => Failure::failed(&error),
    })
}

/// Starts an App and connects it to the target, or to the Gateway in between.
///
/// # Errors
/// Nobody is there, or somebody else.
pub async fn join(settings: &Flags<Caller>, target: &Target) -> Result<App, Failure> {
    let plan = settings.clone().resolve()?.plan;
    let (transports, _) = credentials::transports(&plan)?;
    let app = start(plan.builder(transports)).await?;
    let peer = target.via.as_ref().unwrap_or(&target.app);
    match app.connect(peer.as_str(), &target.connect).await {
        Ok(_) => Ok(app),
        Err(error) => Err(connect_failure(&error, peer.as_str(), target)),
    }
}

fn connect_failure(error: &ConnectError, peer: &str, target: &Target) -> Failure {
    let url = &target.connect;
    if let Some(advice) = credentials_advice(error.reason()) {
        return Failure::failed(format_args!("{error}, at {url}; {advice}"));
    }
    match error {
        ConnectError::Dial(dial) => match &**dial {
            DialError::Url(_) | DialError::UnknownScheme { .. } => {
                Failure::usage(format_args!("--connect: {dial}"))
            }
            DialError::Refused { .. } => Failure::failed(format_args!(
                "{dial}; start {peer} there, or name its address with --connect"
            )),
            _ => Failure::failed(dial),
        },
        // A register for another App is dropped, or its connection closed: who is there does not say who it is.
        ConnectError::ExpectMismatch { .. }
        | ConnectError::PeerDown { .. }
        | ConnectError::Timeout { .. } => Failure::failed(format_args!(
            "{error}, at {url}; if another App listens there, name that one, or reach {peer:?} through it with --via"
        )),
        ConnectError::Refused { reason, .. } if reason == "appId-in-use" => {
            Failure::failed(format_args!(
                "{peer:?} at {url} knows a living App of our ID (appId-in-use); choose another --id"
            ))
        }
        _ => Failure::failed(format_args!("{error}, at {url}")),
    }
}

/// What to show to a server that wants to know who we are.
fn credentials_advice(reason: &str) -> Option<&'static str> {
    match reason {
        "client-certificate-missing" => {
            Some("show a certificate with --tls-client-cert and --tls-client-key")
        }
        "identity-not-allowed" | "identity-not-listed" => {
            Some("choose an --id that this certificate or token may have")
        }
        "certificate-unknown-issuer" => Some("name the authority that you trust with --tls-roots"),
        _ if reason.ends_with("-401") => Some("show a token with --bearer-token-file"),
        _ if reason.ends_with("-403") => Some("show another token with --bearer-token-file"),
        _ => None,
    }
}

/// The failure that a call's end is. `what` was called.
pub fn call_failure(error: &CallError, target: &Target, what: &str) -> Failure {
    let app = &target.app;
    let advice = match error {
        CallError::NotOk { why, .. } => {
            return Failure::failed(format_args!("{app}: {what}: not ok: {why}"));
        }
        CallError::Timeout => "; give it a longer --timeout, or look what it is doing",
        CallError::PeerRestarted => "; call again if doing it twice is harmless",
        CallError::PeerGone => "; it left, or did not come back within --grace",
        CallError::Send(_) => "; is it connected to the App at --connect?",
        _ => "",
    };
    Failure::failed(format_args!(
        "{app}: {what}: {}: {error}{advice}",
        error.reason()
    ))
}

/// Unregisters and goes.
pub async fn leave(app: App) {
    app.shutdown(Shutdown::Drain(LEAVE_TIME)).await;
}

/// Does `work` and leaves; at Ctrl-C leaves at once.
///
/// # Errors
/// What `work` fails with, or [`Failure::Interrupted`].
pub async fn until_interrupted<T>(
    app: App,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut interrupts = Interrupts::new()?;
    let result = tokio::select! {
        biased;
        result = work => result,
        () = interrupts.next() => Err(Failure::Interrupted),
    };
    leave(app).await;
    result
}
