//! Whom a command talks to, and the words that name Apps and places. What this module keeps true: a name or a URL that is
//! none is refused before anything is opened.

use nacp::AppId;
use nact::Url;

/// Where the App is that is called.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// The App to talk to
    #[arg(value_name = "APP", value_parser = app_id)]
    pub app: AppId,
    /// Where it listens, or where its Gateway (--via) does
    #[arg(long, value_name = "URL", value_parser = url)]
    pub connect: String,
    /// The Gateway that listens at --connect, and forwards to APP
    #[arg(long, value_name = "APP", value_parser = app_id)]
    pub via: Option<AppId>,
}

/// An App ID of 1 to 255 bytes.
pub fn app_id(text: &str) -> Result<AppId, String> {
    AppId::new(text).map_err(|error| error.to_string())
}

/// A URL, as it was written: printing a parsed one hides its query.
pub fn url(text: &str) -> Result<String, String> {
    match text.parse::<Url>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
