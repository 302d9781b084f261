//! `nacp signal`: steers an event that is running.
//!
//! What this module keeps true: success means that the App has the signal, not that it obeyed.

use nacp::SignalKind;

use crate::failure::Failure;
use crate::settings::{Caller, Flags};
use crate::target::Target;
use crate::{json_argument, session};

/// What to say to whom.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The event request's id, as `nacp event` prints it
    #[arg(value_name = "REQUEST_ID")]
    request: String,
    /// What to say
    #[arg(value_enum)]
    kind: Kind,
    /// With normal: what to say, as JSON
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<String>,
    #[command(flatten)]
    settings: Flags<Caller>,
}

const NOTES: &str = "\
An App of this kind obeys the signals of the App that made the request; give its --id.

Examples:
  nacp signal world dd481314-1 pause --connect tcp://127.0.0.1:18900 --id hello
  nacp signal world dd481314-1 normal '{\"add\":2}' --connect tcp://127.0.0.1:18900 --id hello";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Normal,
    Pause,
    Resume,
    Abort,
}

impl From<Kind> for SignalKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Normal => Self::Normal,
            Kind::Pause => Self::Pause,
            Kind::Resume => Self::Resume,
            Kind::Abort => Self::Abort,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The App did not get it.
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.payload.is_some() && args.kind != Kind::Normal {
        return Err(Failure::usage(
            "only a normal signal has a payload; leave the JSON out",
        ));
    }
    let payload = match args.kind {
        Kind::Normal => Some(json_argument::payload(args.payload.as_deref())?),
        _ => None,
    };
    let app = session::join(&args.settings, &args.target).await?;
    let sender = app.clone();
    session::until_interrupted(app, async {
        let is_delivered = sender
            .signal_to(
                args.target.app.as_str(),
                &args.request,
                args.kind.into(),
                payload.as_ref(),
            )
            .await
            .map_err(|error| session::call_failure(&error, &args.target, "signal"))?;
        if is_delivered {
            return Ok(());
        }
        Err(Failure::failed(format_args!(
            "{}: signal: not delivered; is the App still there?",
            args.target.app
        )))
    })
    .await
}
