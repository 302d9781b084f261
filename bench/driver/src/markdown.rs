//! The results as Markdown: the verdicts, then one table for each measure.

use std::fmt::Write;

use crate::results::{Record, Results, Spread};
use crate::verdict::Verdict;

/// A column: its heading, the figure, and what that is divided by.
type Column = (&'static str, &'static str, f64);

const MIB: f64 = 1_048_576.0;

/// What each measure shows.
pub fn columns(measure: char) -> &'static [Column] {
    match measure {
        'a' => &[
            ("p50 µs", "p50_us", 1.0),
            ("p99 µs", "p99_us", 1.0),
            ("CPU µs/request", "cpu_us_per_unit", 1.0),
        ],
        'b' => &[
            ("requests/s", "per_s", 1.0),
            ("p50 µs", "p50_us", 1.0),
            ("p99 µs", "p99_us", 1.0),
            ("CPU µs/request", "cpu_us_per_unit", 1.0),
        ],
        'c' => &[
            ("CPU µs/request", "cpu_us_per_unit", 1.0),
            ("client", "cpu_us_per_unit_client", 1.0),
            ("server", "cpu_us_per_unit_server", 1.0),
            ("broker", "cpu_us_per_unit_broker", 1.0),
            ("system calls/request", "syscalls_per_unit", 1.0),
            ("allocations/request", "allocations_per_unit", 1.0),
        ],
        'd' => &[
            ("chunks/s", "per_s", 1.0),
            ("CPU µs/chunk", "cpu_us_per_unit", 1.0),
            ("chunks lost", "lost", 1.0),
        ],
        'e' => &[
            ("GiB/s", "gib_per_s", 1.0),
            ("sender's peak MiB", "memory_peak_bytes_client", MIB),
            ("receiver's peak MiB", "memory_peak_bytes_server", MIB),
            ("small calls' p50 µs", "small_p50_us", 1.0),
            ("small calls' p99 µs", "small_p99_us", 1.0),
            ("small calls", "small_units", 1.0),
        ],
        'f' => &[
            (
                "KiB/link, Gateway",
                "memory_growth_bytes_per_unit_gateway",
                1_024.0,
            ),
            (
                "KiB/link, Apps",
                "memory_growth_bytes_per_unit_client",
                1_024.0,
            ),
            ("links/s", "per_s", 1.0),
        ],
        'g' => &[
            ("units/s", "per_s", 1.0),
            ("p50 µs", "p50_us", 1.0),
            ("p99 µs", "p99_us", 1.0),
            ("Gateway CPU µs/unit", "cpu_us_per_unit_gateway", 1.0),
            ("all CPU µs/unit", "cpu_us_per_unit", 1.0),
        ],
        'h' => &[
            ("drained in ms", "drain_ms", 1.0),
            ("µs/message", "us_per_message", 1.0),
            ("CPU µs/message", "cpu_us_per_unit", 1.0),
        ],
        _ => &[
            ("ns/emit", "ns_per_emit", 1.0),
            ("ns/emit/listener", "ns_per_hit", 1.0),
        ],
    }
}

/// What each measure is called.
pub fn title(measure: char) -> &'static str {
    match measure {
        'a' => "Round trip, one call in flight",
        'b' => "Requests per second, 16 B",
        'c' => "What a request costs",
        'd' => "Streams",
        'e' => "Large messages",
        'f' => "Idle links",
        'g' => "Through a Gateway",
        'h' => "Draining after a reconnect",
        _ => "Event bus",
    }
}

/// The whole report.
pub fn report(heading: &str, results: &Results, verdicts: &[Verdict]) -> String {
    let mut text = format!("{heading}\n\n");
    targets(&mut text, verdicts);
    for measure in 'a'..='i' {
        let mut records = results.0.iter().filter(|r| r.measure == measure).peekable();
        if records.peek().is_some() {
            table(&mut text, measure, &records.collect::<Vec<_>>());
        }
    }
    text
}

/// Only the verdicts.
pub fn targets(text: &mut String, verdicts: &[Verdict]) {
    text.push_str("## Targets\n\n| | target | measured | verdict |\n|---|---|---|---|\n");
    for verdict in verdicts {
        let value = verdict.value.map_or_else(|| "–".into(), number);
        let says = match verdict.is_reached {
            Some(true) => "reached",
            Some(false) => "**not reached**",
            None => "not measured",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {value} | {says} |",
            verdict.measure, verdict.target
        );
    }
    text.push('\n');
}

fn table(text: &mut String, measure: char, records: &[&Record]) {
    let has = |column: &&Column| records.iter().any(|r| r.spread(column.1).is_some());
    let columns: Vec<&Column> = columns(measure).iter().filter(has).collect();
    let _ = write!(
        text,
        "## {measure}. {}\n\n| case | contender |",
        title(measure)
    );
    for (heading, _, _) in &columns {
        let _ = write!(text, " {heading} |");
    }
    let _ = write!(text, "\n|---|---|{}\n", "---|".repeat(columns.len()));
    for record in records {
        let _ = write!(text, "| {} | {} |", record.case, record.contender);
        if record.rounds.is_empty() {
            let reason = record.failures.first().map_or("not run", String::as_str);
            let _ = writeln!(
                text,
                " {} |{}",
                cell(reason),
                " |".repeat(columns.len().max(1) - 1)
            );
            continue;
        }
        for (_, figure, divisor) in &columns {
            let shown = record
                .spread(figure)
                .map(|spread| spread_text(spread, *divisor));
            let _ = write!(text, " {} |", shown.unwrap_or_default());
        }
        if !record.failures.is_empty() {
            let _ = write!(
                text,
                " {} rounds failed: {} |",
                record.failures.len(),
                cell(&record.failures[0])
            );
        }
        text.push('\n');
    }
    text.push('\n');
}

/// The first figure of a record, for people who watch.
pub fn headline(record: &Record) -> String {
    let shown = columns(record.measure)
        .iter()
        .filter_map(|(heading, figure, divisor)| {
            let spread = record.spread(figure)?;
            Some(format!("{heading} {}", spread_text(spread, *divisor)))
        })
        .next();
    let failure = record.failures.first().map(|why| format!("failed: {why}"));
    let parts = [shown, failure].into_iter().flatten();
    parts.collect::<Vec<_>>().join("; ")
}

/// One line, without what ends a cell.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

fn spread_text(spread: Spread, divisor: f64) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|v| number(v / divisor));
    if min == max {
        return median;
    }
    format!("{median} ({min}–{max})")
}

/// Three digits or so, with thousands set apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        let digits = format!("{size:.0}");
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 {
            format!("-{text}")
        } else {
            text
        };
    }
    match size {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        let texts = [1_234_567.8, 999.6, 42.42, 1.234, -2_000.0].map(number);
        assert_eq!(texts, ["1,234,568", "1000", "42.4", "1.23", "-2,000"]);
    }
}
