//! `guestd-bench bench|soak ROOT ...`: called by `build.sh`, which says what it does.

use std::path::Path;
use std::process::{Command, ExitCode};

use guestd_bench::bench::{self, Plan};
use guestd_bench::figures::Line;
use guestd_bench::{Outcome, report, soak};

const USAGE: &str = "usage: ./build.sh bench [--quick] [--write] [--only PART]\n       \
                     ./build.sh soak [COMMANDS]\n       guestd-bench profile ROOT";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench", root, ref options @ ..] => measure(Path::new(root), options),
        ["profile", root] => bench::profile::run(Path::new(root), 3200).map(|()| true),
        ["soak", root] => soak::run(Path::new(root), soak::Plan::LONG),
        ["soak", root, count] => match count.parse() {
            Ok(commands) => {
                let long = soak::Plan::LONG;
                soak::run(Path::new(root), soak::Plan { commands, ..long })
            }
            Err(_) => Err(USAGE.into()),
        },
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("guestd-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table; whether every goal is met.
fn measure(root: &Path, options: &[&str]) -> Outcome<bool> {
    let (mut plan, mut write, mut wanted) = (Plan::FULL, false, "");
    let by = report::command(options);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--quick" => plan = Plan::QUICK,
            "--write" => write = true,
            "--only" => wanted = options.next().ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    // A table of some lines would take the place of all others.
    if write && !["", "files"].contains(&wanted) {
        return Err("--write is for all lines, or for those of --only files".into());
    }
    let lines = bench::run(root, &root.join("target/bench"), plan, wanted)?;
    let table = report::table(&lines);
    println!("{table}");
    if write {
        publish(root, &table, plan, (wanted, &by))?;
    }
    Ok(lines.iter().all(Line::is_met))
}

/// Puts the table into `docs/`; the lines of files have a table of their own.
fn publish(root: &Path, table: &str, plan: Plan, (wanted, by): (&str, &str)) -> Outcome<()> {
    let cores = std::thread::available_parallelism()?;
    let date = String::from_utf8(
        Command::new("date")
            .args(["-u", "+%Y-%m-%d"])
            .output()?
            .stdout,
    )?;
    let about = format!(
        "{}, {cores} cores, {}, {} rounds",
        date.trim(),
        std::env::consts::ARCH,
        plan.rounds
    );
    let page = root.join("docs/benchmarks.md");
    let marks = match wanted {
        "files" => report::MARKS_OF_FILES,
        _ => report::MARKS,
    };
    let measured = format!("Measured by `{by}`: {about}.\n\n{table}\n");
    let text = std::fs::read_to_string(&page)?;
    let text = report::replaced(&text, marks, &measured);
    std::fs::write(page, text.ok_or("docs/benchmarks.md has no marks")?)?;
    Ok(())
}
