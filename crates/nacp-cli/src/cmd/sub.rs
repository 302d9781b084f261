//! `nacp sub`: what an App's event bus emits.

use serde_json::json;

use crate::failure::{Failure, say};
use crate::settings::{Caller, Flags};
use crate::target::Target;
use crate::{json_argument, output, session};

/// What to listen to.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// A name on its event bus: segments between colons, * is any one segment
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// One JSON object a line: {"name": …, "payload": …}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<Caller>,
}

const EXAMPLES: &str = "\
Ends with Ctrl-C, or when the App is gone.

Examples:
  nacp sub world 'task:*' --connect tcp://127.0.0.1:18900
  nacp sub world 'nacp:internal:napp:success' --json --connect tcp://127.0.0.1:18900";

/// Runs the command.
///
/// # Errors
/// The App refuses, or is gone.
pub async fn run(args: Args) -> Result<(), Failure> {
    let app = session::join(&args.settings, &args.target).await?;
    let subscriber = app.clone();
    let result = session::until_interrupted(app, async {
        let failure = |error| session::call_failure(&error, &args.target, &args.pattern);
        let mut hits = subscriber
            .subscribe(args.target.app.as_str(), &args.pattern)
            .await
            .map_err(failure)?;
        say(&format!(
            "subscribed to {} of {}",
            args.pattern, args.target.app
        ));
        while let Some(hit) = hits.next().await {
            let payload = json_argument::show(&hit.payload)?;
            if args.json {
                output::line(&format!(
                    "{{\"name\":{},\"payload\":{payload}}}",
                    json!(&*hit.name)
                ))?;
            } else {
                output::line(&format!(
                    "{} {payload}",
                    crate::failure::one_line(&hit.name)
                ))?;
            }
        }
        Err(Failure::failed(format_args!(
            "{}: {}: the subscription ended; the App left, or did not come back within --grace",
            args.target.app, args.pattern
        )))
    })
    .await;
    match result {
        // Ctrl-C is how this command is meant to end.
        Err(Failure::Interrupted) => Ok(()),
        result => result,
    }
}
