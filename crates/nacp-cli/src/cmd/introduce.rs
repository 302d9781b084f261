//! `nacp introduce`: what an App can do.

use nacp::Payload;
use nacp::message::{Declaration, Declared};

use crate::failure::{Failure, one_line};
use crate::settings::{Caller, Flags};
use crate::target::Target;
use crate::{json_argument, output, session};

/// Whom to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The declaration as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<Caller>,
}

/// Runs the command.
///
/// # Errors
/// No response, or one that is no declaration.
pub async fn run(args: Args) -> Result<(), Failure> {
    let app = session::join(&args.settings, &args.target).await?;
    let caller = app.clone();
    let declaration = session::until_interrupted(app, async {
        caller
            .introduce(args.target.app.as_str())
            .await
            .map_err(|error| session::call_failure(&error, &args.target, "NApp.introduce"))
    })
    .await?;
    if args.json {
        let payload = Payload::encode(&declaration).map_err(Failure::failed)?;
        return output::line(&json_argument::show(&payload)?);
    }
    print(&declaration)
}

fn print(declaration: &Declaration) -> Result<(), Failure> {
    for (kind, list) in [
        ("abilities", &declaration.abilities),
        ("events", &declaration.events),
    ] {
        output::line(kind)?;
        for Declared { name, description } in list {
            // Text from elsewhere must not move the cursor.
            let (name, description) = (one_line(name), one_line(description));
            output::line(format!("  {name:16} {description}").trim_end())?;
        }
    }
    Ok(())
}
