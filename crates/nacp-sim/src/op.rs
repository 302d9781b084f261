//! [`Op`]: everything that can happen to the world from outside. What this module keeps true: each Op is a name and a
//! few small numbers, so it reads from a line of text, from fuzz bytes and from a generator alike; and every Op is
//! legal in every state (an index counts modulo what is there), so leaving out others of a trace keeps it playable.

use std::fmt;
use std::str::FromStr;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident $word:literal { $($(#[$field_doc:meta])* $field:ident < $limit:literal),* $(,)? })*) => {
        /// One thing that happens. All numbers are below the limit that [`Op::from_bytes`] uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: u32),* },)*
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name { $($field),* } => {
                        f.write_str($word)?;
                        $(write!(f, " {}", $field)?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl FromStr for Op {
            type Err = BadOp;
            fn from_str(line: &str) -> Result<Self, BadOp> {
                let mut words = line.split_whitespace();
                let name = words.next().unwrap_or_default();
                let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
                let op = match name {
                    $($word => Self::$name { $($field: number().ok_or_else(|| BadOp(line.to_owned()))?),* },)*
                    _ => return Err(BadOp(line.to_owned())),
                };
                Ok(op)
            }
        }

        impl Op {
            /// Reads one Op from the front of `bytes`; missing bytes count as zero. `None` at the end.
            pub fn from_bytes(bytes: &mut &[u8]) -> Option<Self> {
                const WORDS: &[&str] = &[$($word),*];
                let (&choice, rest) = bytes.split_first()?;
                *bytes = rest;
                let word = WORDS[usize::from(choice) % WORDS.len()];
                let mut number = |limit: u32| {
                    let width = if limit <= 256 { 1 } else { 2 };
                    let mut value = 0;
                    for _ in 0..width {
                        let (byte, rest) = bytes.split_first().map_or((0, &[][..]), |(byte, rest)| (*byte, rest));
                        *bytes = rest;
                        value = value << 8 | u32::from(byte);
                    }
                    value % limit
                };
                Some(match word {
                    $($word => Self::$name { $($field: number($limit)),* },)*
                    _ => unreachable!("WORDS has all words"),
                })
            }
        }
    };
}

/// A line that is no Op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOp(pub String);

impl fmt::Display for BadOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an op: {:?}", self.0)
    }
}

impl std::error::Error for BadOp {}

ops! {
    /// Time passes, in steps of 8 microseconds.
    Advance "advance" {
        /// How many steps.
        steps < 65536,
    }
    /// A call. The handler's doings travel with it.
    Request "request" {
        /// The caller.
        node < 8,
        /// The called.
        to < 8,
        /// 1 = event, 0 = ability.
        event < 2,
        /// Milliseconds between the handler's steps.
        delay_ms < 1024,
        /// Chunks that an event's handler emits.
        chunks < 16,
        /// 1 = it succeeds.
        ok < 2,
        /// Bytes of its payload.
        size < 4096,
        /// The caller's own limit; 0 = none.
        deadline_ms < 4096,
    }
    /// A signal for an open event call.
    Signal "signal" {
        /// Whose call.
        node < 8,
        /// Which of its open calls.
        call < 64,
        /// 0 normal, 1 pause, 2 resume, 3 abort.
        kind < 4,
        /// Bytes of its payload.
        size < 2048,
    }
    /// The caller loses interest.
    Cancel "cancel" {
        /// Whose call.
        node < 8,
        /// Which of its open calls.
        call < 64,
    }
    /// Asks what the remote can do.
    Introduce "introduce" {
        /// The caller.
        node < 8,
        /// The called.
        to < 8,
    }
    /// A subscription.
    Subscribe "subscribe" {
        /// The subscriber.
        node < 8,
        /// On whose bus.
        to < 8,
        /// Which of a few patterns.
        pattern < 8,
        /// 1 = asks for lossless hits.
        lossless < 2,
    }
    /// Ends a subscription.
    Unsubscribe "unsubscribe" {
        /// The subscriber.
        node < 8,
        /// Which of its subscriptions.
        sub < 16,
    }
    /// Emits on the own bus.
    Publish "publish" {
        /// Whose bus.
        node < 8,
        /// Which of a few names.
        name < 8,
        /// Bytes of its payload.
        size < 2048,
    }
    /// Leaves an App for good (LINK-12).
    Disconnect "disconnect" {
        /// Who leaves.
        node < 8,
        /// Whom.
        to < 8,
    }
    /// Ends all of an App's protocol state (TERM-1).
    Terminate "terminate" {
        /// Which App.
        node < 8,
    }
    /// The program dies and starts again with no memory.
    Restart "restart" {
        /// Which.
        node < 8,
        /// 1 = nobody is told: its connections stay half-open.
        silent < 2,
    }
    /// A connection breaks.
    Reset "reset" {
        /// Which of the live ones.
        conn < 16,
        /// When the dialler notices.
        dialler_ms < 1024,
        /// When the acceptor notices.
        acceptor_ms < 1024,
        /// 1 = what is on the wire still arrives.
        flush < 2,
    }
    /// One direction of a connection goes silent; nobody is told.
    Block "block" {
        /// Which of the live ones.
        conn < 16,
        /// 0 = from the dialler.
        side < 2,
    }
    /// It goes on where it stopped.
    Unblock "unblock" {
        /// Which of the live ones.
        conn < 16,
        /// 0 = from the dialler.
        side < 2,
    }
    /// A reader stops reading.
    Stall "stall" {
        /// Which of the live ones.
        conn < 16,
        /// Which writer is not read: 0 = the dialler.
        side < 2,
    }
    /// It reads on.
    Resume "resume" {
        /// Which of the live ones.
        conn < 16,
        /// 0 = from the dialler.
        side < 2,
    }
    /// Between two Apps nothing passes and no connection comes about.
    Cut "cut" {
        /// One.
        a < 8,
        /// The other.
        b < 8,
    }
    /// That ends.
    Heal "heal" {
        /// One.
        a < 8,
        /// The other.
        b < 8,
    }
    /// One more connection attempt, wanted or not.
    Dial "dial" {
        /// The dialler.
        node < 8,
        /// The dialled.
        to < 8,
        /// How long it is under way.
        delay_ms < 2048,
    }
    /// A program is not scheduled for a while.
    Freeze "freeze" {
        /// Which.
        node < 8,
        /// How long.
        ms < 8192,
        /// 1 = its clock stands too (a suspended machine).
        clock_stops < 2,
    }
}

/// The patterns and names of [`Op::Subscribe`] and [`Op::Publish`].
pub(crate) const PATTERNS: [&str; 8] = ["a", "b", "a:*", "*", "a:b", "*:b", "a:*:c", "b:c"];
pub(crate) const NAMES: [&str; 8] = ["a", "b", "a:a", "c", "a:b", "c:b", "a:x:c", "b:c"];

impl Op {
    /// The time that [`Op::Advance`] takes, in nanoseconds.
    pub const STEP_NANOS: u64 = 8_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_survives_its_text() {
        let bytes: Vec<u8> = (0..4_000u32).map(|n| (n * 7 + n / 5) as u8).collect();
        let mut rest = &bytes[..];
        let mut count = 0;
        while let Some(op) = Op::from_bytes(&mut rest) {
            assert_eq!(op.to_string().parse(), Ok(op));
            count += 1;
        }
        assert!(count > 200);
        assert!("advance".parse::<Op>().is_err() && "fly 1 2".parse::<Op>().is_err());
    }
}
