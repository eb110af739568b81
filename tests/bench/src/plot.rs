//! The ratios of a run as a picture: a bar a line for guestd, one for OpenSSH, a mark for the goal.

use crate::figures::{Goal, Line};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 56.0;
const TOP: f64 = 92.0;
/// Ratios from 1/32 to 32 are shown, on a logarithmic scale with 1 in the middle.
const OCTAVES: f64 = 5.0;

/// How much of the limit's speed there is: 1 is as fast as the limit, larger is faster.
fn speed(goal: Goal, ratio: f64) -> f64 {
    match goal {
        Goal::RatioAtMost(_) => 1.0 / ratio,
        Goal::RatioAtLeast(_) | Goal::AtMost(_) => ratio,
    }
}

fn x_of(speed: f64) -> f64 {
    let share = 1.0 + speed.log2() / OCTAVES;
    LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
}

/// An SVG of the lines that have a limit to be compared with.
pub fn svg(lines: &[Line], caption: &str) -> String {
    let rows: Vec<&Line> = lines.iter().filter(|line| !line.limit.is_empty()).collect();
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 46.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"600\">Speed as a share of what the \
         kernel alone can do</text>\n\
         <text x=\"16\" y=\"48\" fill=\"#555\">{caption}</text>\n\
         <g fill=\"#1f6feb\"><rect x=\"16\" y=\"61\" width=\"12\" height=\"12\"/></g>\
         <text x=\"33\" y=\"72\">guestd</text>\n\
         <g fill=\"#b8bec6\"><rect x=\"92\" y=\"61\" width=\"12\" height=\"12\"/></g>\
         <text x=\"109\" y=\"72\">OpenSSH, one kept connection</text>\n\
         <line x1=\"312\" x2=\"312\" y1=\"60\" y2=\"74\" stroke=\"#d1242f\" stroke-width=\"3\"/>\
         <text x=\"319\" y=\"72\">goal of guestd</text>\n"
    );
    for tick in 0..=(OCTAVES as u32) {
        let share = 0.5f64.powi(tick as i32);
        let (x, label) = (x_of(share), format!("{:.3}", share));
        let label = label.trim_end_matches('0').trim_end_matches('.');
        svg += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#e3e6ea\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>\n",
            bottom + 18.0
        );
    }
    svg += &format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">share of the limit's \
         speed, logarithmic; 1 is the limit</text>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 36.0
    );
    for (number, line) in rows.iter().enumerate() {
        svg += &row(line, TOP + ROW * number as f64);
    }
    svg + "</svg>\n"
}

fn row(line: &Line, top: f64) -> String {
    let mut row = format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
        LEFT - 12.0,
        top + ROW / 2.0 + 4.0,
        line.name
    );
    let bars = [(&line.ours, "#1f6feb", 8.0), (&line.ssh, "#b8bec6", 28.0)];
    for (values, colour, down) in bars {
        let Some(ratio) = line.ratio(values) else {
            continue;
        };
        let share = speed(line.goal, ratio);
        let (y, end) = (top + down, x_of(share));
        let (width, label) = (end - LEFT, end.max(LEFT) + 6.0);
        row += &format!(
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{colour}\"/>\
             <text x=\"{label:.1}\" y=\"{:.1}\">{share:.2}</text>\n",
            y + 14.0
        );
    }
    if let Goal::RatioAtMost(goal) | Goal::RatioAtLeast(goal) = line.goal {
        let x = x_of(speed(line.goal, goal));
        row += &format!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#d1242f\" \
             stroke-width=\"3\"/>\n",
            top + 4.0,
            top + 30.0
        );
    }
    row
}
