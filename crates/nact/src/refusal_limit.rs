//! A bound on how often one remote may be refused. What it keeps true: the work that refused attempts of one remote cause
//! is bounded, and so is the memory that keeps count of it; time is tokio's.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::Identity;

/// Remotes of which refusals are remembered at most.
const ORIGINS_MAX: usize = 4096;
/// After this long one refusal is forgotten.
const FORGIVENESS: Duration = Duration::from_secs(1);
/// Bytes of a name that tell one remote from another. Names are the remote's choice, and so is their length.
const NAME_BYTES_MAX: usize = 256;

/// Whose refusals are counted together.
///
/// ```
/// use nact::{Identity, Origin};
/// let of = |text: &str| Origin::address(text.parse().unwrap());
/// assert_eq!(of("[2001:db8::1]:7"), of("[2001:db8::2]:9"), "one customer of an IPv6 provider has a whole /64");
/// assert_ne!(of("10.0.0.1:7"), of("10.0.0.2:7"));
/// assert_ne!(Origin::identity(&Identity::new("reports")), Some(Origin::name("reports")), "what is proved, and what is said");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Network(IpAddr),
    Identity(String),
    Name(String),
}

impl Origin {
    /// An IPv4 address, or the /64 network of an IPv6 address. The port does not matter.
    pub fn address(address: SocketAddr) -> Self {
        Self(Kind::Network(match address.ip().to_canonical() {
            IpAddr::V6(address) => {
                let bits = u128::from(address) & !u128::from(u64::MAX);
                Ipv6Addr::from(bits).into()
            }
            address => address,
        }))
    }

    /// A verified identity, by its common name or else its first DNS name. `None` if it has neither.
    pub fn identity(identity: &Identity) -> Option<Self> {
        let name = identity
            .common_name
            .as_ref()
            .or(identity.dns_names.first())?;
        Some(Self(Kind::Identity(shortened(name))))
    }

    /// Whatever else tells one remote from another: a path, a process. Only its first 256 bytes count.
    pub fn name(name: &str) -> Self {
        Self(Kind::Name(shortened(name)))
    }
}

fn shortened(name: &str) -> String {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Counts refusals per [`Origin`], of 4,096 origins at most. One refusal is forgotten each second.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use nact::{Origin, RefusalLimit};
/// let limit = RefusalLimit::new(2);
/// let origin = Origin::name("process 7");
/// limit.count(&origin);
/// assert!(limit.admits(&origin));
/// limit.count(&origin);
/// assert!(!limit.admits(&origin), "it is not worth the work of looking again");
/// # }
/// ```
#[derive(Debug)]
pub struct RefusalLimit {
    refusals_max: u32,
    counts: Mutex<HashMap<Origin, Count>>,
}

#[derive(Debug)]
struct Count {
    refusals: u32,
    since: Instant,
}

impl Count {
    /// Refusals that are not forgotten yet.
    fn current(&self, now: Instant) -> u32 {
        let forgotten = (now - self.since).as_secs() / FORGIVENESS.as_secs();
        self.refusals
            .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

impl RefusalLimit {
    /// Admits an origin until it was refused `refusals_max` times; 0 = always.
    pub fn new(refusals_max: u32) -> Self {
        Self {
            refusals_max,
            counts: Mutex::default(),
        }
    }

    /// False when the origin has collected too many.
    pub fn admits(&self, origin: &Origin) -> bool {
        if self.refusals_max == 0 {
            return true;
        }
        let counts = self.lock();
        let count = counts.get(origin);
        count.is_none_or(|count| count.current(Instant::now()) < self.refusals_max)
    }

    /// Takes note of one refusal.
    pub fn count(&self, origin: &Origin) {
        if self.refusals_max == 0 {
            return;
        }
        let now = Instant::now();
        let mut counts = self.lock();
        if counts.len() >= ORIGINS_MAX && !counts.contains_key(origin) {
            counts.retain(|_, count| count.current(now) > 0);
            if counts.len() >= ORIGINS_MAX {
                // So many at once are no single remote's doing; this count could not hold them off.
                return;
            }
        }
        let count = counts.entry(origin.clone()).or_insert(Count {
            refusals: 0,
            since: now,
        });
        *count = Count {
            refusals: count.current(now).saturating_add(1),
            since: now,
        };
    }

    // No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Origin {
        Origin::address(SocketAddr::new(text.parse().unwrap(), 1))
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_collects_refusals_and_is_forgiven_one_each_second() {
        let (limit, remote) = (RefusalLimit::new(3), address("10.0.0.1"));
        for _ in 0..3 {
            assert!(limit.admits(&remote));
            limit.count(&remote);
        }
        assert!(!limit.admits(&remote));
        assert!(limit.admits(&address("10.0.0.2")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(limit.admits(&remote));
        limit.count(&remote);
        assert!(!limit.admits(&remote));
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_many_addresses_counts_as_one_and_memory_is_bounded() {
        let limit = RefusalLimit::new(1);
        limit.count(&address("2001:db8::1"));
        assert!(!limit.admits(&address("2001:db8::ffff:2")));
        assert!(limit.admits(&address("2001:db8:0:1::1")));
        for index in 0..2 * ORIGINS_MAX as u32 {
            let address = SocketAddr::new(IpAddr::V4(index.into()), 1);
            limit.count(&Origin::address(address));
        }
        assert_eq!(limit.counts.lock().unwrap().len(), ORIGINS_MAX);
        let long = "ä".repeat(100_000);
        let Origin(Kind::Name(kept)) = Origin::name(&long) else {
            panic!("a name");
        };
        assert_eq!(kept.len(), NAME_BYTES_MAX);
        let Origin(Kind::Name(kept)) = Origin::name(&format!("x{long}")) else {
            panic!("a name");
        };
        assert_eq!(kept.len(), NAME_BYTES_MAX - 1, "cut between characters");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_is_counted() {
        let limit = RefusalLimit::new(0);
        limit.count(&address("10.0.0.1"));
        assert!(limit.admits(&address("10.0.0.1")) && limit.counts.lock().unwrap().is_empty());
    }
}
