//! Who may register here. What this module keeps true:
//! - The decision is made before there is any state for the App, and without a lock: the hook is user code.
//! - An App ID that is listed for an identity is had with that identity only, and whoever could speak for all Apps is
//!   not let in beside such a list.
//! - Who is refused too often is refused without work; what keeps count of that is bounded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nacp::{AppId, Declaration, Value};
use nact::{Identity, Origin, RefusalLimit, Transports};

/// Bytes of a reason that travel.
const REASON_BYTES_MAX: usize = 256;

/// The other end of a connection, as far as the transport can tell.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) remote: String,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) identity: Option<Identity>,
    /// Where we listen; `None` = we dialled.
    pub(crate) listener: Option<Arc<str>>,
}

/// A register that the core asks about.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) app: AppId,
    pub(crate) registration: Box<nacp::message::Registration>,
}

/// A remote App that wants to register, as the hook of [`Builder::authorize`](crate::Builder::authorize) sees it. What
/// it says of itself is a claim; only the identity is proved.
///
/// ```
/// use napp::{App, Refusal, Registration};
/// /// Whatever comes in from elsewhere must have a certificate in the name of its App ID.
/// fn named_like_its_certificate(who: &Registration) -> Result<(), Refusal> {
///     match who.identity() {
///         Some(identity) if identity.has_name(who.app().as_str()) => Ok(()),
///         Some(_) => Err(Refusal::new("another-name")),
///         None if who.listener().is_some_and(|url| url.starts_with("unix:")) => Ok(()),
///         None => Err(format!("{} has no certificate", who.remote()).into()),
///     }
/// }
/// let _ = App::builder("world").authorize(named_like_its_certificate);
/// ```
#[derive(Debug)]
pub struct Registration {
    asked: Asked,
    caller: Arc<Caller>,
}

impl Registration {
    pub(crate) fn new(asked: Asked, caller: &Arc<Caller>) -> Self {
        Self {
            asked,
            caller: Arc::clone(caller),
        }
    }

    /// The App ID that it wants.
    pub fn app(&self) -> &AppId {
        &self.asked.app
    }

    /// Whether it wants to be our Gateway. If admitted, it may speak for every App.
    pub fn is_gateway(&self) -> bool {
        self.asked.registration.is_gateway
    }

    /// The abilities and events that it says it has.
    pub fn declaration(&self) -> &Declaration {
        &self.asked.registration.declaration
    }

    /// What else it says of itself; base peers may send it.
    pub fn record(&self) -> Option<&Value> {
        self.asked.registration.record.as_ref()
    }

    /// Who it proved to be: by its verified certificate (mutual TLS), or to the authorisation hook of the web
    /// transport. `None` where nothing was proved, and for a connection that this App dialled.
    pub fn identity(&self) -> Option<&Identity> {
        self.caller.identity.as_ref()
    }

    /// The remote for people: an address, a path, a process.
    pub fn remote(&self) -> &str {
        &self.caller.remote
    }

    /// The remote's address, where the transport has one. Behind a proxy, the proxy's.
    pub fn address(&self) -> Option<SocketAddr> {
        self.caller.address
    }

    /// The URL that this App listens at and the remote came in by. `None` when this App dialled the connection: a
    /// remote that was dialled may register Apps too.
    pub fn listener(&self) -> Option<&str> {
        self.caller.listener.as_deref()
    }

    /// Whose refusals are counted together: an identity can be held to account, an address next best.
    fn origin(&self) -> Origin {
        let identity = self.identity().and_then(Origin::identity);
        let address = || self.address().map(Origin::address);
        identity
            .or_else(address)
            .unwrap_or_else(|| Origin::name(self.remote()))
    }
}

/// Why a register is refused. The remote's [`connect`](crate::App::connect) fails with it as
/// [`ConnectError::Refused`](crate::ConnectError::Refused), and the bus has it as `nacp:internal:register:error`.
///
/// ```
/// use napp::Refusal;
/// assert_eq!(Refusal::new("not-on-the-list").reason(), "not-on-the-list");
/// assert_eq!(Refusal::from(format!("closed until {}", 8)).reason(), "closed until 8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    reason: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with this reason, which the remote gets to read: best a short stable name. What exceeds 256 bytes is cut
    /// off.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        let mut reason = reason.into();
        if reason.len() > REASON_BYTES_MAX {
            let mut end = REASON_BYTES_MAX;
            while !reason.is_char_boundary(end) {
                end -= 1;
            }
            reason.to_mut().truncate(end);
        }
        Self { reason }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

impl From<Refusal> for Cow<'static, str> {
    fn from(refusal: Refusal) -> Self {
        refusal.reason
    }
}

type Hook = Box<dyn Fn(&Registration) -> Result<(), Refusal> + Send + Sync>;

/// The rules of one App.
pub(crate) struct Admission {
    hooks: Vec<Hook>,
    /// Identity name → the App IDs it may have.
    identities: BTreeMap<String, BTreeSet<AppId>>,
    /// Every App ID that is listed for somebody.
    listed: BTreeSet<AppId>,
    refusals: RefusalLimit,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            hooks: Vec::new(),
            identities: BTreeMap::new(),
            listed: BTreeSet::new(),
            refusals: RefusalLimit::new(20),
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("hooks", &self.hooks.len())
            .field("identities", &self.identities)
            .finish_non_exhaustive()
    }
}

impl Admission {
    pub(crate) fn add_hook(
        &mut self,
        hook: impl Fn(&Registration) -> Result<(), Refusal> + Send + Sync + 'static,
    ) {
        self.hooks.push(Box::new(hook));
    }

    pub(crate) fn list(&mut self, identity: String, apps: impl IntoIterator<Item = AppId>) {
        let own = self.identities.entry(identity).or_default();
        for app in apps {
            self.listed.insert(app.clone());
            own.insert(app);
        }
    }

    pub(crate) fn limit_refusals(&mut self, refusals_max: u32) {
        self.refusals = RefusalLimit::new(refusals_max);
    }

    /// Whether there is anything to decide.
    pub(crate) fn is_asked(&self) -> bool {
        !self.hooks.is_empty() || !self.identities.is_empty()
    }

    /// Says once, at the start, that everybody may come in, if that is so.
    pub(crate) fn warn_if_open(&self, app: &AppId, transports: &Transports, urls: &[String]) {
        if self.is_asked() {
            return;
        }
        let is_open = |url: &&String| transports.is_public_plaintext(url).unwrap_or_default();
        let open: Vec<&str> = urls.iter().filter(is_open).map(String::as_str).collect();
        if !open.is_empty() {
            tracing::warn!(
                %app,
                urls = open.join(", "),
                "everybody who can reach this machine may register as any App, and whoever is on the way can read and \
                 change what is sent: listen at tls:// or wss://, and say who may come in with Builder::authorize or \
                 Builder::identities"
            );
        }
    }

    /// Asks everybody who has a say. Runs user code.
    pub(crate) fn decide(&self, registration: &Registration) -> Result<(), Refusal> {
        let origin = registration.origin();
        let (app, remote) = (registration.app(), registration.remote());
        if !self.refusals.admits(&origin) {
            tracing::debug!(%app, remote, "refused a register: it was refused too often");
            return Err(Refusal::new("refused-too-often"));
        }
        let listed = self.check_identity(registration);
        let verdict = listed.and_then(|()| self.ask_hooks(registration));
        if let Err(refusal) = &verdict {
            self.refusals.count(&origin);
            let identity = registration.identity();
            tracing::warn!(%app, remote, ?identity, %refusal, "refused a register");
        }
        verdict
    }

    fn check_identity(&self, registration: &Registration) -> Result<(), Refusal> {
        if self.identities.is_empty() {
            return Ok(());
        }
        if registration.is_gateway() {
            return Err(Refusal::new("gateway-not-allowed"));
        }
        let names = registration
            .identity()
            .into_iter()
            .flat_map(|identity| identity.common_name.iter().chain(&identity.dns_names));
        let mut lists = names
            .filter_map(|name| self.identities.get(name))
            .peekable();
        let may = if lists.peek().is_some() {
            lists.any(|apps| apps.contains(registration.app()))
        } else {
            !self.listed.contains(registration.app())
        };
        may.then_some(())
            .ok_or_else(|| Refusal::new("identity-not-allowed"))
    }

    fn ask_hooks(&self, registration: &Registration) -> Result<(), Refusal> {
        self.hooks.iter().try_for_each(|hook| {
            catch_unwind(AssertUnwindSafe(|| hook(registration)))
                .unwrap_or_else(|_| Err(Refusal::new("authorize-panicked")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str) -> AppId {
        AppId::new(name).unwrap()
    }

    fn wants(name: &str, address: &str, identity: Option<Identity>) -> Registration {
        let caller = Caller {
            remote: address.to_owned(),
            address: address.parse().ok(),
            identity,
            listener: None,
        };
        let asked = Asked {
            app: app(name),
            registration: Box::default(),
        };
        Registration::new(asked, &Arc::new(caller))
    }

    fn reason(admission: &Admission, registration: &Registration) -> String {
        let verdict = admission.decide(registration);
        verdict.map_or_else(|refusal| refusal.reason().to_owned(), |()| "ok".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_by_identity_else_by_address_else_by_name() {
        let mut admission = Admission::default();
        admission.limit_refusals(1);
        admission.add_hook(|_| Err("no".into()));
        let named = |name: &str| Some(Identity::new(name));
        for (address, identity, expected) in [
            ("10.0.0.1:1", named("reports"), "no"),
            ("10.0.0.2:1", named("reports"), "refused-too-often"),
            ("10.0.0.1:1", named("billing"), "no"),
            ("10.0.0.1:1", None, "no"),
            ("10.0.0.1:2", None, "refused-too-often"),
            ("10.0.0.1:1", Some(Identity::default()), "refused-too-often"),
            ("10.0.0.2:1", None, "no"),
            ("unix:a (process 1)", None, "no"),
            ("unix:a (process 1)", None, "refused-too-often"),
            ("unix:a (process 2)", None, "no"),
        ] {
            let registration = wants("hello", address, identity.clone());
            assert_eq!(
                reason(&admission, &registration),
                expected,
                "{address} {identity:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_name_of_an_identity_adds_its_app_ids_and_lists_add_up() {
        let mut admission = Admission::default();
        admission.list("reports".into(), [app("reports")]);
        admission.list("reports".into(), [app("reports-2")]);
        admission.list("both.example".into(), [app("shared")]);
        admission.list("empty".into(), []);
        let mut identity = Identity::new("reports");
        identity.dns_names = vec!["both.example".into(), "unlisted.example".into()];
        let may = |name: &str, identity: Option<&Identity>| {
            reason(&admission, &wants(name, "10.0.0.1:1", identity.cloned())) == "ok"
        };
        for name in ["reports", "reports-2", "shared"] {
            assert!(may(name, Some(&identity)) && !may(name, None));
        }
        assert!(!may("hello", Some(&identity)) && may("hello", None));
        assert!(may("hello", Some(&Identity::new("Reports"))), "unlisted");
        assert!(!may("reports", Some(&Identity::new("Reports"))));
        assert!(!may("hello", Some(&Identity::new("empty"))), "may nothing");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let refusal = Refusal::from(format!("x{}", "ä".repeat(1_000)));
        assert_eq!(refusal.reason().len(), REASON_BYTES_MAX - 1);
    }
}
