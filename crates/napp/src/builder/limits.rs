//! Limits of the protocol that few programs change. What this file keeps true: every limit of [`nacp::Config`] has a
//! setter, with the core's own default.

use std::time::Duration;

use crate::Builder;

/// Limits of a Gateway, and the seldom changed ones of every App.
impl Builder {
    /// As a [Gateway](Self::gateway): messages that may wait for one destination, at least 1. They do not count in
    /// [`queue_count_max`](Self::queue_count_max), and one destination takes no room from another. From half of it on
    /// their source is not read, for [`forward_hold`](Self::forward_hold) at most; at the limit a notify is refused and
    /// anything else pushes the oldest out (CAP-2), which the bus reports as `nacp:internal:backlog:warning`. Default
    /// 1,024.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let gateway = napp::App::builder("gateway")
    ///     .gateway(true)
    ///     .forward_count_max(10_000)
    ///     .forward_bytes_max(256 << 20)
    ///     .forward_hold(Duration::from_millis(500))
    ///     .start().await?;
    /// # drop(gateway);
    /// # Ok(()) }
    /// ```
    pub fn forward_count_max(mut self, messages: usize) -> Self {
        self.config.forward_count_max = messages.max(1);
        self
    }

    /// As a [Gateway](Self::gateway): bytes that may wait for one destination, as
    /// [`forward_count_max`](Self::forward_count_max). A larger request is answered not ok `too-large`; another larger
    /// message is dropped, and the bus told. Default 64 MiB.
    pub fn forward_bytes_max(mut self, bytes: u64) -> Self {
        self.config.forward_bytes_max = bytes;
        self
    }

    /// As a [Gateway](Self::gateway): how long a source is held (not read) at a time for a destination that is behind.
    /// Keep it well below the [`ack_timeout`](Self::ack_timeout) of the Apps that are connected. Default 1 s.
    pub fn forward_hold(mut self, limit: Duration) -> Self {
        self.config.forward_hold = limit;
        self
    }

    /// How long a register, unregister, subscribe or unsubscribe waits for its Response, and a connection for its
    /// register (WAIT-2). Default 10 s.
    pub fn protocol_timeout(mut self, limit: Duration) -> Self {
        self.config.protocol_timeout = limit;
        self
    }

    /// How long the holder of an App ID may stay silent when another program claims it (LINK-14). Default 3 s.
    pub fn challenge_timeout(mut self, limit: Duration) -> Self {
        self.config.challenge_timeout = limit;
        self
    }

    /// How often in a row a link may break over one message before it is parked: settled as not sent, and the next one
    /// flows (MSG-9). 0 = never. Default 32.
    pub fn delivery_attempts_max(mut self, attempts: u32) -> Self {
        self.config.delivery_attempts_max = attempts;
        self
    }

    /// Acks that may wait for one connection that is not read at its other end, before it is closed; at least 1.
    /// Default 65,536.
    pub fn acks_waiting_max(mut self, acks: usize) -> Self {
        self.config.acks_waiting_max = acks.max(1);
        self
    }

    /// Subscriptions that one remote App may hold here; one more is refused `too-many-subscriptions`. Default 65,536.
    pub fn subscriptions_max(mut self, subscriptions: usize) -> Self {
        self.config.subscriptions_max = subscriptions;
        self
    }

    /// Whether many messages may share one ack, towards Apps that know how. Default true.
    pub fn batched_acks(mut self, batched: bool) -> Self {
        self.config.batched_acks = batched;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setter_changes_its_own_limit_and_nothing_else() {
        let second = Duration::from_secs(1);
        let builder = Builder::new("world")
            .forward_count_max(1)
            .forward_bytes_max(2)
            .forward_hold(3 * second)
            .protocol_timeout(4 * second)
            .challenge_timeout(5 * second)
            .delivery_attempts_max(6)
            .acks_waiting_max(7)
            .subscriptions_max(8)
            .batched_acks(false);
        let mut expected = Builder::new("world").config;
        expected.forward_count_max = 1;
        expected.forward_bytes_max = 2;
        expected.forward_hold = 3 * second;
        expected.protocol_timeout = 4 * second;
        expected.challenge_timeout = 5 * second;
        expected.delivery_attempts_max = 6;
        expected.acks_waiting_max = 7;
        expected.subscriptions_max = 8;
        expected.batched_acks = false;
        assert_eq!(format!("{:?}", builder.config), format!("{expected:?}"));
        let none = Builder::new("world")
            .forward_count_max(0)
            .acks_waiting_max(0);
        assert_eq!(none.config.forward_count_max, 1, "else nothing ever passes");
        assert_eq!(none.config.acks_waiting_max, 1);
    }
}
