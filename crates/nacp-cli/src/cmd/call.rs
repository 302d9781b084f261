//! `nacp call`: one ability, one response.

use std::time::Duration;

use nacp::Payload;
use napp::CallOptions;

use crate::failure::Failure;
use crate::settings::{Caller, Flags};
use crate::target::Target;
use crate::{duration, json_argument, output, session};

/// What to call.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The ability's name
    #[arg(value_name = "ABILITY")]
    ability: String,
    /// What it is asked with: JSON in the notation of the README; - reads it from stdin
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<String>,
    /// When to give up [default: never, while the App is known]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    #[command(flatten)]
    settings: Flags<Caller>,
}

const EXAMPLES: &str = "\
Examples:
  nacp call world echo '{\"text\":\"hi\"}' --connect tcp://127.0.0.1:18900
  nacp call world echo '{\"$bytes\":\"aGk=\"}' --connect tcp://127.0.0.1:18900 --timeout 5s
  echo '[1,2,3]' | nacp call world echo - --connect unix:/tmp/world.sock
  nacp call mars echo 1 --via gateway --connect tcp://127.0.0.1:18901";

/// Runs the command.
///
/// # Errors
/// No response, or one that is not ok.
pub async fn run(args: Args) -> Result<(), Failure> {
    let request = json_argument::payload(args.payload.as_deref())?;
    let app = session::join(&args.settings, &args.target).await?;
    let options = match args.timeout {
        Some(timeout) => CallOptions::default().deadline(timeout),
        None => CallOptions::default(),
    };
    let caller = app.clone();
    let response = session::until_interrupted(app, async {
        caller
            .call_with::<_, Payload>(args.target.app.as_str(), &args.ability, &request, options)
            .await
            .map_err(|error| session::call_failure(&error, &args.target, &args.ability))
    })
    .await?;
    output::line(&json_argument::show(&response)?)
}
