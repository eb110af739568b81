//! Where the daemon's processor time goes, thread by thread: less noisy than any clock on the wall.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::commands::{CLIENTS, by_stream, rate};
use super::throughput::{self, Kind};
use crate::Outcome;
use crate::daemon::Daemon;

/// Streams of text that are followed.
const TEXTS: usize = 4;

/// Nanoseconds on a processor so far, by the thread's name; threads of one name are added up.
fn spent(pid: u32) -> Outcome<BTreeMap<String, f64>> {
    let mut spent = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let name = fs::read_to_string(task.join("comm"))?.trim().to_owned();
        let schedstat = fs::read_to_string(task.join("schedstat"))?;
        let on_cpu = schedstat.split(' ').next().unwrap_or("0").parse::<f64>()?;
        *spent.entry(name).or_default() += on_cpu;
    }
    Ok(spent)
}

/// Prints microseconds of processor time a command, with one client and with 32, and a MiB of streamed text.
pub fn run(root: &Path, commands: usize) -> Outcome<()> {
    let daemon = Daemon::start(root, &[])?;
    let mut client = daemon.client()?;
    let mut batch = |label: &str, count: usize| -> Outcome<()> {
        for number in 0..count {
            let id = format!("{label}-{number}");
            by_stream(&mut client, &id)?;
            client.ack(&id)?;
        }
        Ok(())
    };
    batch("warm", commands / 4)?;
    let before = spent(daemon.pid())?;
    batch("one", commands)?;
    let one = ("one client", "a command");
    report(one, &before, &spent(daemon.pid())?, commands);
    let each = commands / CLIENTS;
    let before = spent(daemon.pid())?;
    rate(each, |number| {
        let mut client = daemon.client()?;
        Ok(move |turn| {
            let id = format!("many-{number}-{turn}");
            by_stream(&mut client, &id)?;
            client.ack(&id).map(drop)
        })
    })?;
    let many = ("32 clients", "a command");
    report(many, &before, &spent(daemon.pid())?, each * CLIENTS);
    let (mut client, mut gate) = (daemon.client()?, daemon.client()?);
    let before = spent(daemon.pid())?;
    for round in 0..TEXTS {
        let id = format!("text-{round}");
        throughput::by_stream(&mut client, &mut gate, Kind::Text, &id)?;
    }
    let text = ("text", "a MiB");
    let mebibytes = (TEXTS * throughput::BYTES) >> 20;
    report(text, &before, &spent(daemon.pid())?, mebibytes);
    Ok(())
}

fn report(
    (what, each): (&str, &str),
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    count: usize,
) {
    let mut rows: Vec<(f64, &String)> = after
        .iter()
        .map(|(name, spent)| {
            let so_far = before.get(name).copied().unwrap_or(0.0);
            ((spent - so_far) / 1e3 / count as f64, name)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = rows.iter().map(|row| row.0).sum();
    println!("{what}: {total:.0} µs of processor time {each} in the daemon");
    for (micros, name) in rows.iter().filter(|row| row.0 >= 0.5) {
        println!("  {micros:6.1} µs  {name}");
    }
}
