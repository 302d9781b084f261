//! [`Settings`]: what one world is like. What this module keeps true: a world is its settings and its Ops, nothing
//! else; and a random mix meets every feature with every fault in some run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nacp::{AppId, Config, Overflow};

use crate::rng::Rng;

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident = $default:literal)*) => {
        /// One world. All fields are numbers, so that a trace file can hold them; masks have a bit per App.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Default for Settings {
            /// Three Apps on a good network, without faults.
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl fmt::Display for Settings {
            /// One `key=value` a line, only what differs from the default.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if self.$field != $default {
                    writeln!(f, concat!(stringify!($field), "={}"), self.$field)?;
                })*
                Ok(())
            }
        }

        impl FromStr for Settings {
            type Err = BadSetting;
            fn from_str(text: &str) -> Result<Self, BadSetting> {
                let mut settings = Self::default();
                for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    let bad = || BadSetting(line.to_owned());
                    let (key, value) = line.split_once('=').ok_or_else(bad)?;
                    let value = value.parse().map_err(|_| bad())?;
                    match key {
                        $(stringify!($field) => settings.$field = value,)*
                        _ => return Err(bad()),
                    }
                }
                Ok(settings)
            }
        }
    };
}

/// A line that is no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting(pub String);

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a setting: {:?}", self.0)
    }
}

impl std::error::Error for BadSetting {}

settings! {
    /// All chance of the world comes from it.
    seed = 1
    /// How many Apps, 2 to 5.
    nodes = 3
    /// 1 = App 0 is a Gateway and all others are connected to it alone.
    gateway = 0
    /// Apps with `Overflow::Wait`.
    wait_mask = 0
    /// Apps that announce lossless streams.
    lossless_mask = 255
    /// Apps that speak the base protocol: neither instance nor features go to or from them.
    base_mask = 0
    /// 0 = off.
    heartbeat_ms = 2_000
    /// See `Config::ack_timeout`.
    ack_timeout_ms = 1_000
    /// See `Config::reconnect_grace`.
    grace_ms = 5_000
    /// See `Config::protocol_timeout`.
    protocol_timeout_ms = 3_000
    /// See `Config::challenge_timeout`.
    challenge_ms = 400
    /// See `Config::queue_count_max`.
    queue_count_max = 1_024
    /// See `Config::queue_bytes_max`.
    queue_bytes_max = 4_000_000_000
    /// See `Config::large_message_bytes`; also the size of a frame.
    large_bytes = 65_536
    /// See `Config::stream_window`.
    stream_window = 512
    /// See `Config::delivery_attempts_max`.
    attempts_max = 32
    /// What the kernel takes from a writer before the reader has read it, in bytes.
    send_buffer = 65_536
    /// One way.
    latency_us = 200
    /// At most so much more.
    jitter_us = 100
    /// Bytes a millisecond.
    bandwidth = 100_000
    /// The most bytes that arrive at once.
    segment_bytes = 65_536
    /// How often acceptance is known late, per mille.
    late_acceptance = 0
    /// How often a reader takes a chunk late, per mille.
    slow_reader = 0
    /// Apps that are asked who may register.
    asks_mask = 0
    /// How often they say no, per mille.
    refusals = 0
    /// They answer within so many milliseconds.
    verdict_ms = 0
    /// 1 = both sides dial.
    both_dial = 0
    /// How many of a thousand Ops are faults.
    fault_rate = 0
    /// Which kinds of faults, a bit each; see `generate`.
    fault_mask = 0
    /// How many of a thousand Ops let time pass.
    advance_rate = 300
    /// The usual step of time, in microseconds.
    advance_us = 500
    /// The largest payload, in bytes.
    payload_max = 64
}

impl Settings {
    /// A mix of features, limits, network and faults that only `seed` decides.
    pub fn mixed(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x05e7_7195);
        let mut settings = Self {
            seed,
            nodes: rng.pick(&[2, 2, 2, 3, 3, 4, 5]),
            ..Self::default()
        };
        let some_apps = |rng: &mut Rng, per_mille| {
            if rng.chance(per_mille) {
                rng.below(32)
            } else {
                0
            }
        };
        settings.wait_mask = some_apps(&mut rng, 400);
        settings.lossless_mask = if rng.chance(300) { rng.below(32) } else { 255 };
        settings.base_mask = some_apps(&mut rng, 200);
        settings.heartbeat_ms = rng.pick(&[0, 500, 2_000, 2_000]);
        settings.both_dial = rng.pick(&[0, 0, 1]);
        settings.mix_limits(&mut rng);
        settings.mix_network(&mut rng);
        settings.calm_the_buffers();
        if !rng.chance(100) {
            settings.fault_rate = rng.pick(&[5, 20, 60, 150]);
            settings.fault_mask = if rng.chance(500) {
                u64::MAX
            } else {
                rng.next()
            };
        }
        settings.mix_admission(&mut rng);
        if settings.nodes > 2 && rng.chance(300) {
            settings.gateway = 1;
        }
        settings
    }

    fn mix_admission(&mut self, rng: &mut Rng) {
        if rng.chance(300) {
            self.asks_mask = if rng.chance(500) { 31 } else { rng.below(32) };
            self.refusals = rng.pick(&[0, 100, 500]);
            self.verdict_ms = rng.pick(&[0, 5, 300, 2 * self.protocol_timeout_ms]);
        }
    }

    fn mix_limits(&mut self, rng: &mut Rng) {
        self.queue_count_max = rng.pick(&[1, 2, 4, 8, 32, 1_024, 1_024]);
        self.payload_max = rng.pick(&[16, 64, 300, 2_000]);
        if rng.chance(200) {
            self.queue_bytes_max = rng.pick(&[4_096, 8_192, 32_768]);
        }
        self.large_bytes = rng.pick(&[256, 512, 65_536]);
        self.stream_window = rng.pick(&[1, 2, 4, 16, 512]);
        self.attempts_max = rng.pick(&[0, 2, 3, 32]);
        self.grace_ms = rng.pick(&[600, 2_000, 5_000, 20_000]);
        self.ack_timeout_ms = rng.pick(&[300, 1_000, 2_000]);
        self.challenge_ms = rng.pick(&[100, 400]);
        self.protocol_timeout_ms = rng.pick(&[700, 3_000]);
    }

    fn mix_network(&mut self, rng: &mut Rng) {
        self.send_buffer = rng.pick(&[128, 1_000, 65_536, 65_536]);
        self.latency_us = rng.pick(&[50, 1_000, 20_000]);
        self.jitter_us = rng.pick(&[0, 500, 10_000]);
        self.bandwidth = rng.pick(&[100, 1_000, 100_000, 100_000]);
        self.segment_bytes = rng.pick(&[60, 700, 65_536, 65_536]);
        self.late_acceptance = rng.pick(&[0, 0, 100, 500]);
        self.slow_reader = rng.pick(&[0, 0, 200]);
        self.advance_rate = rng.pick(&[200, 300, 500]);
        self.advance_us = rng.pick(&[100, 1_000, 10_000]);
    }

    /// The ACK clock starts when the kernel has a message: what the kernel holds must drain well within the timeouts,
    /// or a good network would look like a dead one.
    fn calm_the_buffers(&mut self) {
        let patience = self.ack_timeout_ms.min(match self.heartbeat_ms {
            0 => u64::MAX,
            interval => interval,
        });
        // One buffer a round trip: enough must pass within the timeouts.
        let round_trip_ms = 2 * (self.latency_us + self.jitter_us) / 1_000 + 1;
        self.send_buffer = self.send_buffer.max(16_000 * round_trip_ms / patience);
        self.bandwidth = self.bandwidth.max(self.send_buffer * 8 / patience);
    }

    /// The Apps, between 2 and 5.
    pub fn node_count(&self) -> usize {
        self.nodes.clamp(2, 5) as usize
    }

    /// Whether `mask` names the App `node`.
    pub fn names(mask: u64, node: usize) -> bool {
        mask >> node & 1 == 1
    }

    /// Whether neither instance nor features pass between these two.
    pub fn is_base_pair(&self, a: usize, b: usize) -> bool {
        Self::names(self.base_mask, a) || Self::names(self.base_mask, b)
    }

    /// Whether these two speak through a Gateway.
    pub fn is_forwarded(&self, a: usize, b: usize) -> bool {
        self.gateway == 1 && a != 0 && b != 0
    }

    /// Whether streams between these two are lossless.
    pub fn is_lossless_pair(&self, a: usize, b: usize) -> bool {
        !self.is_base_pair(a, b)
            && !self.is_forwarded(a, b)
            && Self::names(self.lossless_mask, a)
            && Self::names(self.lossless_mask, b)
    }

    /// The App ID of `node`.
    pub fn app(node: usize) -> AppId {
        AppId::new(["app-0", "app-1", "app-2", "app-3", "app-4"][node])
            .expect("five bytes are a legal App ID")
    }

    /// The core's configuration for `node`.
    pub fn config(&self, node: usize) -> Config {
        let ms = Duration::from_millis;
        let mut config = Config::new(Self::app(node));
        config.ack_timeout = ms(self.ack_timeout_ms);
        config.reconnect_grace = ms(self.grace_ms);
        config.heartbeat_interval = (self.heartbeat_ms > 0).then(|| ms(self.heartbeat_ms));
        config.queue_count_max = self.queue_count_max as usize;
        config.queue_bytes_max = self.queue_bytes_max;
        config.overflow = if Self::names(self.wait_mask, node) {
            Overflow::Wait
        } else {
            Overflow::Evict
        };
        config.is_gateway = self.gateway == 1 && node == 0;
        config.protocol_timeout = ms(self.protocol_timeout_ms);
        config.challenge_timeout = ms(self.challenge_ms);
        config.delivery_attempts_max = self.attempts_max as u32;
        config.large_message_bytes = self.large_bytes as usize;
        config.stream_window = self.stream_window;
        config.asks_before_binding = Self::names(self.asks_mask, node);
        config.lossless_streams = Self::names(self.lossless_mask, node);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_text() {
        for seed in 0..50 {
            let settings = Settings::mixed(seed);
            assert_eq!(settings.to_string().parse(), Ok(settings));
        }
    }
}
