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
        Goal::AheadInTime => "ahead of both".to_owned(),
        Goal::AheadInRate(1.0) => "ahead of both".to_owned(),
        Goal::AheadInRate(share) => format!("ahead of OpenSSH, {share} × websockify"),
    }
}

/// One row a line: medians over the rounds, and the medians of the rounds' ratios.
pub fn table(lines: &[Line]) -> String {
    // Files are compared with neither of them, tunnels with both.
    let with_ssh = lines.iter().any(|line| !line.ssh.is_empty());
    let more = lines.iter().any(|line| !line.websockify.is_empty());
    let mut table = String::from("| what | guestd | limit | ratio | goal | met |");
    let mut rule = String::from("|---|---|---|---|---|---|");
    for (name, shown) in [("OpenSSH", with_ssh), ("websockify", more)] {
        if shown {
            table += &format!(" {name} | its ratio |");
            rule += "---|---|";
        }
    }
    table += &format!("\n{rule}\n");
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
            "| {} | {} | {} | {} | {} | {} |",
            line.name,
            show(&line.ours),
            show(&line.limit),
            ratio(&line.ours),
            goal(line),
            if line.is_met() { "yes" } else { "**no**" },
        );
        for (values, shown) in [(&line.ssh, with_ssh), (&line.websockify, more)] {
            if shown {
                table += &format!(" {} | {} |", show(values), ratio(values));
            }
        }
        table.push('\n');
    }
    table
}

/// What the run was asked for by, but for where its table goes.
pub fn command(options: &[&str]) -> String {
    let told = options.iter().filter(|option| **option != "--write");
    told.fold("./build.sh bench".to_owned(), |by, option| {
        format!("{by} {option}")
    })
}

/// Marks between which a page's measured part is.
pub const MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- /measured -->\n"];
/// The same for the lines of files.
pub const MARKS_OF_FILES: [&str; 2] = ["<!-- measured: files -->\n", "<!-- /measured: files -->\n"];

/// `page` with `measured` in place of what was between the marks; `None` without them.
pub fn replaced(page: &str, marks: [&str; 2], measured: &str) -> Option<String> {
    let (before, rest) = page.split_once(marks[0])?;
    let (_, after) = rest.split_once(marks[1])?;
    Some(format!("{before}{}{measured}{}{after}", marks[0], marks[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_is_told_as_one() {
        assert_eq!(command(&["--write"]), "./build.sh bench");
        let options = ["--quick", "--write", "--only", "files"];
        assert_eq!(command(&options), "./build.sh bench --quick --only files");
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let new = replaced(&page, MARKS, "new\n").unwrap();
        assert_eq!(new, format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]));
        assert_eq!(replaced("without", MARKS, "new\n"), None);
        assert_eq!(replaced(&page, MARKS_OF_FILES, "new\n"), None);
    }
}
