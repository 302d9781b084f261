//! The targets, each a ratio or a limit on figures of the same run, and whether they were reached.

use serde::Serialize;

use crate::plan::{calls, large, own};
use crate::results::Results;

/// A target and what was measured for it.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The measure it belongs to.
    pub measure: char,
    /// What is wanted, in words.
    pub target: String,
    /// What was measured, in the target's terms; `None` = not measured.
    pub value: Option<f64>,
    /// Whether that is enough.
    pub is_reached: Option<bool>,
}

/// A figure's place in the results.
struct At<'a>(char, &'a str, &'a str, &'a str);

#[derive(Clone, Copy)]
enum Want {
    AtMost(f64),
    AtLeast(f64),
}

struct Judge<'a> {
    results: &'a Results,
    verdicts: Vec<Verdict>,
}

/// All verdicts.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let mut judge = Judge {
        results,
        verdicts: Vec::new(),
    };
    judge.round_trips();
    judge.throughput();
    judge.costs();
    judge.streams();
    judge.large_messages();
    judge.own();
    judge.verdicts
}

impl Judge<'_> {
    fn find(&self, at: &At<'_>) -> Option<f64> {
        self.results.median(at.0, at.1, at.2, at.3)
    }

    fn put(&mut self, measure: char, text: &str, value: Option<f64>, want: Want) {
        let (sign, limit) = match want {
            Want::AtMost(limit) => ("≤", limit),
            Want::AtLeast(limit) => ("≥", limit),
        };
        let is_enough = |value: f64| match want {
            Want::AtMost(limit) => value <= limit,
            Want::AtLeast(limit) => value >= limit,
        };
        self.verdicts.push(Verdict {
            measure,
            target: format!("{text} {sign} {limit}"),
            value,
            is_reached: value.map(is_enough),
        });
    }

    fn ratio(&mut self, text: &str, one: &At<'_>, other: &At<'_>, want: Want) {
        let value = self.find(one).zip(self.find(other));
        let value = value.map(|(one, other)| one / other);
        self.put(one.0, text, value, want);
    }

    fn round_trips(&mut self) {
        for socket in ["TCP", "Unix"] {
            for (place, limit) in [("one core", 1.3), ("unpinned", 1.15)] {
                for size in ["16 B", "1 KiB", "64 KiB"] {
                    let case = format!("{socket}, {size}, {place}");
                    let text = format!("{case}: p50 of NACP / raw tokio");
                    let at = |who| At('a', &case, who, "p50_us");
                    self.ratio(&text, &at("NACP"), &at("raw tokio"), Want::AtMost(limit));
                }
            }
        }
    }

    fn throughput(&mut self) {
        let current_64 = [("tarpc", 1.3), ("tonic", 4.0), ("NATS", 2.0)];
        let case = calls::throughput_name(64, 1, "current");
        for (who, factor) in current_64 {
            self.faster(&case, "NACP", who, factor);
        }
        let case = calls::throughput_name(64, 1, "multi");
        self.faster(&case, "NACP", "tarpc", 2.0);
        let case = calls::throughput_name(1_024, 1, "current");
        self.faster(&case, "NACP base", "tarpc", 0.9);
        self.faster(&case, "NACP", "tarpc", 1.5);
    }

    fn faster(&mut self, case: &str, one: &str, other: &str, factor: f64) {
        let text = format!("{case}: requests/s of {one} / {other}");
        let at = |who| At('b', case, who, "per_s");
        self.ratio(&text, &at(one), &at(other), Want::AtLeast(factor));
    }

    fn costs(&mut self) {
        let timed = At('c', calls::COST_TIMED_CASE, "NACP", "cpu_us_per_unit");
        let cpu = self.find(&timed);
        let text = "64 in flight: CPU µs per request, both sides";
        self.put('c', text, cpu, Want::AtMost(3.0));
        let counted = |figure| At('c', calls::COST_CASE, "NACP", figure);
        let syscalls = self.find(&counted("syscalls_per_unit"));
        let text = "64 in flight: system calls per request, both sides";
        self.put('c', text, syscalls, Want::AtMost(0.25));
        let allocations = self.find(&counted("allocations_per_unit"));
        let text = "64 in flight: allocations per request, both sides";
        self.put('c', text, allocations, Want::AtMost(6.0));
    }

    fn streams(&mut self) {
        let at = |who| At('d', calls::STREAM_CASE, who, "per_s");
        let text = "chunks/s of NACP plain / NATS";
        self.ratio(text, &at("NACP plain"), &at("NATS"), Want::AtLeast(1.2));
        let text = "chunks/s of NACP lossless / tonic";
        self.ratio(text, &at("NACP lossless"), &at("tonic"), Want::AtLeast(1.0));
    }

    fn large_messages(&mut self) {
        for payload in [256u64 << 20, 1 << 30] {
            let alone = large::name(payload, false);
            let at = |who, figure| At('e', &alone, who, figure);
            for peer in ["tonic", "tonic wide"] {
                let text = format!("{alone}: GiB/s of NACP / {peer}");
                let (one, other) = (at("NACP", "gib_per_s"), at(peer, "gib_per_s"));
                self.ratio(&text, &one, &other, Want::AtLeast(2.0));
            }
            for (side, figure) in [
                ("sender", "memory_peak_bytes_client"),
                ("receiver", "memory_peak_bytes_server"),
            ] {
                let peak = self.find(&at("NACP", figure));
                let share = peak.map(|peak| peak / payload as f64);
                let text = format!("{alone}: peak memory of the {side} / message");
                self.put('e', &text, share, Want::AtMost(1.1));
            }
            let beside = large::name(payload, true);
            let p99 = self.find(&At('e', &beside, "NACP", "small_p99_us"));
            let text = format!("{beside}: their p99 in ms");
            self.put('e', &text, p99.map(|us| us / 1_000.0), Want::AtMost(20.0));
        }
    }

    fn own(&mut self) {
        let case = own::idle_name(10_000);
        let at = At('f', &case, "NACP", "memory_growth_bytes_per_unit_gateway");
        let kib = self.find(&at).map(|bytes| bytes / 1_024.0);
        let text = format!("{case}: KiB of the Gateway per link");
        self.put('f', &text, kib, Want::AtMost(12.0));
        let case = own::forwarding_name(1_024);
        let calls = self.find(&At('g', &case, "NACP via Gateway", "per_s"));
        let forwarded = calls.map(|calls| calls * own::FORWARDED_PER_CALL);
        let text = format!("{case}: messages/s forwarded (request, response and their acks)");
        self.put('g', &text, forwarded, Want::AtLeast(500_000.0));
        let case = own::FORWARDED_STREAM;
        let chunks = self.find(&At('g', case, "NACP via Gateway", "per_s"));
        let text = format!("{case}: chunks/s forwarded");
        self.put('g', &text, chunks, Want::AtLeast(500_000.0));
        let (few, many) = (own::reconnect_name(1_024), own::reconnect_name(100_000));
        let at = |case| At('h', case, "NACP", "us_per_message");
        let text = "drain: µs per message at 100,000 queued / at 1,024";
        self.ratio(text, &at(&many), &at(&few), Want::AtMost(1.3));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        let verdicts = judge(&Results::default());
        assert!(verdicts.iter().all(|verdict| verdict.is_reached.is_none()));
    }

    #[test]
    fn limits_count_as_reached() {
        let results = Results::default();
        let mut judge = Judge {
            results: &results,
            verdicts: Vec::new(),
        };
        judge.put('a', "x", Some(1.3), Want::AtMost(1.3));
        judge.put('a', "x", Some(1.29), Want::AtLeast(1.3));
        let reached: Vec<_> = judge.verdicts.iter().map(|v| v.is_reached).collect();
        assert_eq!(reached, [Some(true), Some(false)]);
    }
}
