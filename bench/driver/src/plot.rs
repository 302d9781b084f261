//! The results as one SVG: for each case a panel with a bar per contender, its range over the rounds as a line.
//!
//! Drawn by hand: bars and text need no library.

use std::fmt::Write;

use crate::markdown::{columns, number, title};
use crate::results::{Record, Results, Spread};

const PANEL_WIDTH: f64 = 560.0;
const LABEL_WIDTH: f64 = 130.0;
const BAR_WIDTH: f64 = 330.0;
const ROW_HEIGHT: f64 = 18.0;
const HEAD_HEIGHT: f64 = 34.0;
const GAP: f64 = 14.0;
const PER_LINE: usize = 2;
const OURS: &str = "#c2410c";
const OTHERS: &str = "#64748b";

/// Draws everything.
pub fn draw(heading: &str, results: &Results) -> String {
    let mut body = String::new();
    let mut y = 40.0;
    for measure in 'a'..='i' {
        let records: Vec<&Record> = results.0.iter().filter(|r| r.measure == measure).collect();
        if records.is_empty() {
            continue;
        }
        let (name, figure, divisor) = columns(measure)[0];
        text(
            &mut body,
            GAP,
            y + 16.0,
            15,
            "#0f172a",
            &format!("{measure}. {}: {name}", title(measure)),
        );
        y += 28.0;
        let panels: Vec<&[&Record]> = records.chunk_by(|a, b| a.case == b.case).collect();
        for line in panels.chunks(PER_LINE) {
            let rows = line.iter().map(|panel| panel.len()).max().unwrap_or(0);
            for (index, panel) in line.iter().enumerate() {
                let x = GAP + index as f64 * (PANEL_WIDTH + GAP);
                draw_panel(&mut body, x, y, panel, figure, divisor);
            }
            y += HEAD_HEIGHT + rows as f64 * ROW_HEIGHT + GAP;
        }
    }
    let width = PER_LINE as f64 * (PANEL_WIDTH + GAP) + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" \
         font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut svg, GAP, 26.0, 17, "#0f172a", heading);
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(out: &mut String, x: f64, y: f64, panel: &[&Record], figure: &str, divisor: f64) {
    text(out, x, y + 16.0, 12, "#334155", &panel[0].case);
    let spreads: Vec<Option<Spread>> = panel.iter().map(|r| r.spread(figure)).collect();
    let largest = spreads.iter().flatten().map(|spread| spread.max);
    let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
    for (index, (record, spread)) in panel.iter().zip(&spreads).enumerate() {
        let top = y + 24.0 + index as f64 * ROW_HEIGHT;
        text(out, x, top + 12.0, 11, "#0f172a", &record.contender);
        let left = x + LABEL_WIDTH;
        let Some(spread) = spread else {
            text(out, left, top + 12.0, 11, "#b91c1c", "not measured");
            continue;
        };
        let at = |value: f64| left + BAR_WIDTH * value.max(0.0) / largest;
        let color = if record.contender.starts_with("NACP") {
            OURS
        } else {
            OTHERS
        };
        let width = at(spread.median) - left;
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" height=\"14\" fill=\"{color}\"/>"
        );
        let middle = top + 7.0;
        let (low, high) = (at(spread.min), at(spread.max));
        let _ = writeln!(
            out,
            "<path d=\"M{low:.1} {middle}H{high:.1}\" stroke=\"#0f172a\" stroke-width=\"1.5\"/>"
        );
        let label = number(spread.median / divisor);
        text(out, high + 5.0, top + 12.0, 11, "#0f172a", &label);
    }
}

fn text(out: &mut String, x: f64, y: f64, size: u32, color: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{color}\">{content}</text>"
    );
}
