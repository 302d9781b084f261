//! What the settings come to: one place for every value, filled with the libraries' own defaults.
//!
//! What this module keeps true: what a plan holds reaches the App; a default is written down once, in the library that
//! it belongs to (where that library shows it).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nacp::{AppId, Config};
use nact::web::WebLimits;
use nact::{Options, Transports};
use napp::{App, Builder, Refusal};

use super::who::Who;
use crate::random;

/// A text that is not to be shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// Where certificates, keys and tokens lie.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_roots: Option<PathBuf>,
    pub roots: Option<PathBuf>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub tokens: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    pub token: Option<Secret>,
}

/// Every value that can be set.
#[derive(Clone, Debug)]
pub struct Plan {
    pub id: Option<AppId>,
    pub listen: Vec<String>,
    /// Apps to keep a link to, and where they listen.
    pub connect: Vec<(AppId, String)>,
    /// The protocol's limits. Its App ID is a placeholder, for that is known only in the end.
    pub core: Config,
    pub transport: Options,
    pub web: WebLimits,
    pub handlers_max: usize,
    pub backoff_base: Duration,
    pub backoff_ceiling: Duration,
    pub credentials: Credentials,
    /// Which App IDs each identity may take.
    pub identities: BTreeMap<String, Vec<AppId>>,
    /// Whether those without a listed identity are kept out.
    pub only_identities: bool,
    pub refusals_max: u32,
}

impl Plan {
    /// The defaults.
    pub fn new(who: Who) -> Self {
        let named = |id| Some(AppId::new(id).expect("it is short"));
        // A person watches a caller: its later attempts come not too late.
        let ceiling_s = if who == Who::CALLER { 2 } else { 30 };
        let mut plan = Self {
            id: match who {
                Who::SERVE => named("world"),
                Who::GATEWAY => named("gateway"),
                _ => None,
            },
            listen: Vec::new(),
            connect: Vec::new(),
            core: Config::new(AppId::new("unnamed").expect("it is short")),
            transport: Options::default(),
            web: WebLimits::default(),
            handlers_max: 4_096,
            backoff_base: Duration::from_millis(100),
            backoff_ceiling: Duration::from_secs(ceiling_s),
            credentials: Credentials::default(),
            identities: BTreeMap::new(),
            only_identities: false,
            refusals_max: 20,
        };
        plan.core.is_gateway = who == Who::GATEWAY;
        plan
    }

    /// An App as planned.
    pub fn builder(&self, transports: Transports) -> Builder {
        let id = match &self.id {
            Some(id) => id.to_string(),
            None => format!("cli-{:012x}", random::word() & 0xffff_ffff_ffff),
        };
        self.guard(self.limit(App::builder(&id)))
            .transports(transports)
    }

    /// Says who may register.
    fn guard(&self, builder: Builder) -> Builder {
        let builder = builder
            .identities(&self.identities)
            .refusals_max(self.refusals_max);
        if !self.only_identities {
            return builder;
        }
        let listed: Vec<String> = self.identities.keys().cloned().collect();
        builder.authorize(move |who| {
            let is_listed = |name: &String| who.identity().is_some_and(|own| own.has_name(name));
            // Whom we dialled, we chose ourselves.
            if who.listener().is_none() || listed.iter().any(is_listed) {
                return Ok(());
            }
            Err(Refusal::new("identity-not-listed"))
        })
    }

    fn limit(&self, builder: Builder) -> Builder {
        let core = &self.core;
        builder
            .ack_timeout(core.ack_timeout)
            .reconnect_grace(core.reconnect_grace)
            .heartbeat_interval(core.heartbeat_interval)
            .reconnect_backoff(self.backoff_base, self.backoff_ceiling)
            .queue_count_max(core.queue_count_max)
            .queue_bytes_max(core.queue_bytes_max)
            .overflow(core.overflow)
            .gateway(core.is_gateway)
            .auto_multi_gateway_downgrade(core.auto_multi_gateway_downgrade)
            .forward_count_max(core.forward_count_max)
            .forward_bytes_max(core.forward_bytes_max)
            .forward_hold(core.forward_hold)
            .protocol_timeout(core.protocol_timeout)
            .challenge_timeout(core.challenge_timeout)
            .delivery_attempts_max(core.delivery_attempts_max)
            .acks_waiting_max(core.acks_waiting_max)
            .subscriptions_max(core.subscriptions_max)
            .stream_window(core.stream_window)
            .lossless_streams(core.lossless_streams)
            .batched_acks(core.batched_acks)
            .handlers_max(self.handlers_max)
    }
}
