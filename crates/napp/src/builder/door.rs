//! Who may register with an App that is to be. What this file keeps true: without a word here everybody may, as in the
//! base protocol; each word said only narrows that.

use nacp::AppId;

use crate::Builder;
use crate::admission::{Refusal, Registration};

/// Who may register.
impl Builder {
    /// Asks `hook` about every App that wants to register over any connection, after what the protocol itself has to say
    /// against it, and before there is any state for the App. Said more than once, all must agree. Default: everybody
    /// may register.
    ///
    /// A refused App reads the reason in its [`ConnectError::Refused`](crate::ConnectError::Refused), and nothing of it
    /// is left; one that was online before stays what it is. A hook that panics refuses with `authorize-panicked`. An
    /// App that registers again, as after each reconnect, is asked about again; links that stand are not.
    ///
    /// The hook runs in the task of the connection, which waits for it, and under no lock: it may take a moment, must not
    /// block for long, and may use this App's own handles. One that has to wait for a database belongs in the
    /// authorisation hook of the web transport, whose verdict comes here as the
    /// [identity](Registration::identity).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use napp::{App, Refusal};
    /// let world = App::builder("world")
    ///     .listen("mem://authorize")?
    ///     .authorize(|who| match who.app().as_str() {
    ///         "hello" => Ok(()),
    ///         _ => Err(Refusal::new("not-on-the-list")),
    ///     })
    ///     .start().await?;
    /// let mallory = App::builder("mallory").start().await?;
    /// let error = mallory.connect("world", "mem://authorize").await.unwrap_err();
    /// assert_eq!(error.to_string(), r#""world" refused the register: not-on-the-list"#);
    /// assert!(world.connected_apps().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn authorize(
        mut self,
        hook: impl Fn(&Registration) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.admission.add_hook(hook);
        self
    }

    /// Which App IDs an identity may have. An identity is what a connection proved: a name in the client's verified
    /// certificate (mutual TLS; common name or DNS name, letter for letter), or what the web transport's authorisation
    /// hook gave. Said more than once, the lists add up. Default: none.
    ///
    /// | the connection's identity | may register as |
    /// |---|---|
    /// | has a name that is listed here | an App ID listed for one of its names |
    /// | none, or no name of it is listed | any App ID that is listed for nobody |
    ///
    /// All else is refused `identity-not-allowed`. So a listed App ID is had with its identity only, while others come in
    /// as before; to keep those out, let the transport demand certificates or add [`authorize`](Self::authorize), which
    /// is asked after this list. A Gateway speaks for every App, which would make the list worthless: with a list, who
    /// wants to register as our Gateway is refused `gateway-not-allowed`; dial it instead. What comes through a Gateway
    /// that this App dialled is that Gateway's word.
    ///
    /// ```
    /// use napp::App;
    /// let _ = App::builder("hub")
    ///     .gateway(true)
    ///     .identities([("reports.example", ["reports", "reports-2"])])
    ///     .identities([("billing.example", ["billing"])]);
    /// ```
    pub fn identities<N, L>(mut self, lists: impl IntoIterator<Item = (N, L)>) -> Self
    where
        N: Into<String>,
        L: IntoIterator<Item: AsRef<str>>,
    {
        for (name, apps) in lists {
            let apps: Result<Vec<_>, _> = apps
                .into_iter()
                .map(|app| AppId::new(app.as_ref()))
                .collect();
            match apps {
                Ok(apps) => self.admission.list(name.into(), apps),
                Err(error) => self = self.note(Err(error.into())),
            }
        }
        self
    }

    /// How often one remote may be refused by [`identities`](Self::identities) or [`authorize`](Self::authorize) before
    /// it is refused unheard, as `refused-too-often`; 0 = as often as it likes. One refusal is forgotten each second.
    /// Counted by identity, else by address (IPv6: by /64 network), of 4,096 remotes at most; behind a proxy all share
    /// its address. Default 20.
    pub fn refusals_max(mut self, refusals: u32) -> Self {
        self.admission.limit_refusals(refusals);
        self
    }
}
