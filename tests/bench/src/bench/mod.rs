//! The measurements, in rounds that take turns, so that a noisy neighbour hits all of them.

pub mod commands;
pub mod files;
pub mod health;
pub mod memory;
pub mod profile;
pub mod readers;
pub mod throughput;
pub mod tunnel;

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::daemon::Daemon;
use crate::figures::Goal::{AtMost, RatioAtLeast, RatioAtMost};
use crate::figures::{Line, Unit, median};
use crate::ssh::{self, Ssh};
use throughput::Kind;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of everything but memory.
    pub rounds: usize,
    /// Commands a batch, of which there are four a round.
    pub batch: usize,
    /// Commands of each of the 32 clients a round.
    pub each: usize,
    /// How long health is watched a round.
    pub watch: Duration,
    /// Acked execs.
    pub acked: usize,
    /// Unacked outputs of 16 MiB.
    pub unacked: usize,
}

impl Plan {
    /// Everything.
    pub const FULL: Self = Self {
        rounds: 9,
        batch: 50,
        each: 60,
        watch: Duration::from_secs(2),
        acked: 5000,
        unacked: 200,
    };
    /// A look in half a minute.
    pub const QUICK: Self = Self {
        rounds: 3,
        batch: 25,
        each: 30,
        watch: Duration::from_secs(1),
        ..Self::FULL
    };
}

fn say(text: impl Display) {
    eprintln!("bench: {text}");
}

/// Tells that a round of something is over.
fn say_round(what: impl Display, round: usize, rounds: usize) {
    say(format_args!("{what}, round {} of {rounds}", round + 1));
}

/// Measures the daemon of the checkout `root`; `wanted` chooses lines by a part of their name.
/// `scratch` is a directory for what OpenSSH needs.
pub fn run(root: &Path, scratch: &Path, plan: Plan, wanted: &str) -> Outcome<Vec<Line>> {
    // By name only: each of these lines has a reference of its own, not the kernel's limit.
    let mut lines = match wanted {
        "files" => files::run(root, scratch, plan.rounds)?,
        "tunnel" => tunnel::run(root, scratch, plan.rounds)?,
        "readers" => readers::run(root)?,
        _ => {
            let ssh = ssh::start(&scratch.join("ssh"))?;
            if ssh.is_none() {
                say("OpenSSH is not installed: its column stays empty");
            }
            let want = |name: &str| name.contains(wanted);
            let mut lines = in_rounds(root, ssh.as_ref(), plan, &want)?;
            lines.extend(of_fresh_daemons(root, plan, &want)?);
            lines
        }
    };
    lines.retain(|line| !line.ours.is_empty());
    if lines.is_empty() {
        return Err(format!("there is no line '{wanted}' to measure").into());
    }
    Ok(lines)
}

fn in_rounds(
    root: &Path,
    ssh: Option<&Ssh>,
    plan: Plan,
    want: &dyn Fn(&str) -> bool,
) -> Outcome<Vec<Line>> {
    let (per_second, mb) = (Unit::PerSecond, Unit::MbPerSecond);
    let mut stream = Line::new("start to exit by stream", Unit::Ms, RatioAtMost(1.5));
    let mut poll = Line::new("start to exit by poll", Unit::Ms, RatioAtMost(1.5));
    let mut rate = Line::new("32 clients at once", per_second, RatioAtLeast(0.6));
    let mut zeros = Line::new("256 MiB of zeros", mb, RatioAtLeast(0.25));
    let mut text = Line::new("256 MiB of text", mb, RatioAtLeast(0.5));
    let mut health = Line::new("health p99 under 32 clients", Unit::Ms, AtMost(10.0));
    let daemon = Daemon::start(root, &[])?;
    let (mut client, mut gate) = (daemon.client()?, daemon.client()?);
    for round in 0..plan.rounds {
        if want(stream.name) || want(poll.name) {
            let lines = [&mut stream, &mut poll];
            short_commands(&mut client, ssh, plan.batch, round, lines)?;
        }
        if want(rate.name) {
            let limit = commands::rate(plan.each, |_| Ok(|_| commands::by_spawn()))?;
            let ours = commands::daemon_rate(&daemon, plan.each, round)?;
            rate.add(limit, ours);
            if let Some(ssh) = ssh {
                let each = plan.each.div_ceil(8);
                let theirs = commands::rate(each, |_| Ok(|_| commands::by_ssh(ssh)))?;
                rate.ssh.push(theirs);
            }
        }
        for (line, kind) in [(&mut zeros, Kind::Zeros), (&mut text, Kind::Text)] {
            if want(line.name) {
                let limit = throughput::by_pipe(kind)?;
                let id = format!("bulk-{kind:?}-{round}");
                let streamed = throughput::by_stream(&mut client, &mut gate, kind, &id);
                if let Err(failure) = &streamed {
                    say(format_args!("{}: {failure}", line.name));
                    client = daemon.client()?;
                }
                // Bytes that did not arrive are no throughput: the round counts as none.
                line.add(limit, streamed.unwrap_or(0.0));
                if let Some(ssh) = ssh {
                    line.ssh.push(throughput::by_ssh(ssh, kind)?);
                }
            }
        }
        if want(health.name) {
            let p99 = health::p99_under_load(&daemon, plan.watch, round)?;
            health.ours.push(p99);
        }
        let mut told = format!("round {} of {}", round + 1, plan.rounds);
        for line in [&stream, &poll, &rate, &zeros, &text, &health] {
            let (Some(ours), name) = (line.ours.last(), line.name) else {
                continue;
            };
            match line.limit.last() {
                Some(limit) => told += &format!("; {name} {ours:.2} ({:.2}x)", ours / limit),
                None => told += &format!("; {name} {ours:.2}"),
            }
        }
        say(told);
    }
    Ok(vec![stream, poll, rate, zeros, text, health])
}

/// Batches of the limit, the two ways through the daemon and OpenSSH take turns.
fn short_commands(
    client: &mut crate::client::Client,
    ssh: Option<&Ssh>,
    batch: usize,
    round: usize,
    [stream, poll]: [&mut Line; 2],
) -> Outcome<()> {
    let mut times: [Vec<f64>; 4] = Default::default();
    for turn in 0..4 {
        let id = |way: &str, number: usize| format!("{way}-{round}-{turn}-{number}");
        times[0].push(commands::latency(batch, |_| commands::by_spawn())?);
        times[1].push(commands::latency(batch, |number| {
            commands::by_stream(client, &id("stream", number))
        })?);
        times[2].push(commands::latency(batch, |number| {
            commands::by_poll(client, &id("poll", number))
        })?);
        if let Some(ssh) = ssh {
            times[3].push(commands::latency(batch / 5, |_| commands::by_ssh(ssh))?);
        }
        for number in 0..batch {
            client.ack(&id("stream", number))?;
            client.ack(&id("poll", number))?;
        }
    }
    for (line, slot) in [(stream, 1), (poll, 2)] {
        line.add(median(&times[0]), median(&times[slot]));
        if ssh.is_some() {
            line.ssh.push(median(&times[3]));
        }
    }
    Ok(())
}

fn of_fresh_daemons(root: &Path, plan: Plan, want: &dyn Fn(&str) -> bool) -> Outcome<Vec<Line>> {
    let mut cold = Line::new("cold start to first health", Unit::Ms, AtMost(80.0));
    let mut idle = Line::new("idle memory", Unit::Mb, AtMost(45.0));
    let mut acked = Line::new("memory after 5,000 acked", Unit::Mb, AtMost(15.0));
    let mut unacked = Line::new("memory of 200 unacked of 16 MiB", Unit::Mb, AtMost(120.0));
    let mut moved = Line::new("memory after transfers", Unit::Mb, AtMost(10.0));
    if want(cold.name) {
        for _ in 0..plan.rounds {
            cold.ours.push(memory::cold_start(root)?);
        }
    }
    for round in 0..plan.rounds.min(3) {
        if want(idle.name) || want(acked.name) {
            let (before, more) = memory::after_acked(root, plan.acked)?;
            idle.ours.push(before);
            acked.ours.push(more);
        }
        if want(moved.name) {
            moved.ours.push(memory::after_transfers(root)?);
        }
        say_round("memory", round, plan.rounds.min(3));
    }
    if want(unacked.name) {
        unacked.ours.push(memory::with_unacked(root, plan.unacked)?);
    }
    Ok(vec![cold, idle, acked, moved, unacked])
}
