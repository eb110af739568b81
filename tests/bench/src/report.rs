//! The table of a run, as Markdown.

use crate::figures::{Goal, Line, Unit, median};

fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us => format!("{value:.1} µs"),
        Unit::Ms => format!("{value:.2} ms"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::MbPerSecond => format!("{value:.0} MB/s"),
        Unit::Mb => format!("{value:.1} MB"),
    }
}

fn goal(line: &Line) -> String {
    match line.goal {
        Goal::RatioAtMost(most) => format!("at most {most} ×"),
        Goal::RatioAtLeast(least) => format!("at least {least} ×"),
        Goal::AtMost(most) => format!("at most {}", value(line.unit, most)),
    }
}

/// One row a line: medians over the rounds, and the medians of the rounds' ratios.
pub fn table(lines: &[Line]) -> String {
    // Of tunnels alone.
    let more = lines.iter().any(|line| !line.websockify.is_empty());
    let (head, rule) = if more {
        (" websockify | its ratio |", "---|---|")
    } else {
        ("", "")
    };
    let mut table = format!(
        "| what | guestd | limit | ratio | goal | met | OpenSSH | its ratio |{head}\n\
         |---|---|---|---|---|---|---|---|{rule}\n",
    );
    for line in lines {
        let show = |values: &[f64]| match values {
            [] => String::new(),
            values => value(line.unit, median(values)),
        };
        let ratio = |values| {
            line.ratio(values)
                .map_or(String::new(), |ratio| format!("{ratio:.2} ×"))
        };
        table += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            line.name,
            show(&line.ours),
            show(&line.limit),
            ratio(&line.ours),
            goal(line),
            if line.is_met() { "yes" } else { "**no**" },
            show(&line.ssh),
            ratio(&line.ssh),
        );
        if more {
            table += &format!(
                " {} | {} |",
                show(&line.websockify),
                ratio(&line.websockify)
            );
        }
        table.push('\n');
    }
    table
}

/// Marks between which a page's measured part is.
const MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- /measured -->\n"];

/// `page` with `measured` in place of what was between the marks; `None` without them.
pub fn replaced(page: &str, measured: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}{measured}{}{after}", MARKS[0], MARKS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]));
        assert_eq!(replaced("without", "new\n"), None);
    }
}
