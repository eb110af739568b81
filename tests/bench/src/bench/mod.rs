//! The measurements, in rounds that take turns, so that a noisy neighbour hits all of them.

pub mod commands;
pub mod files;
pub mod health;
pub mod memory;
pub mod profile;
pub mod throughput;
pub mod tunnel;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::daemon::Daemon;
use crate::figures::{Goal, Line, Unit, median};
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

fn say(text: &str) {
    eprintln!("bench: {text}");
}

/// Measures the daemon of the checkout `root`; `wanted` chooses lines by a part of their name.
/// `scratch` is a directory for what OpenSSH needs.
pub fn run(root: &Path, scratch: &Path, plan: Plan, wanted: &str) -> Outcome<Vec<Line>> {
    // By name only: each of these lines has a reference of its own, not the kernel's limit.
    if wanted == "files" {
        return files::run(root, scratch, plan.rounds);
    }
    if wanted == "tunnel" {
        return tunnel::run(root, scratch, plan.rounds);
    }
    let mut lines = Vec::new();
    let ssh = ssh::start(&scratch.join("ssh"))?;
    if ssh.is_none() {
        say("OpenSSH is not installed: its column stays empty");
    }
    let want = |name: &str| name.contains(wanted);
    lines.extend(in_rounds(root, ssh.as_ref(), plan, &want)?);
    lines.extend(of_fresh_daemons(root, plan, &want)?);
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
    let mut stream = Line::new("start to exit by stream", Unit::Ms, Goal::RatioAtMost(1.5));
    let mut poll = Line::new("start to exit by poll", Unit::Ms, Goal::RatioAtMost(1.5));
    let mut rate = Line::new(
        "32 clients at once",
        Unit::PerSecond,
        Goal::RatioAtLeast(0.6),
    );
    let mut zeros = Line::new(
        "256 MiB of zeros",
        Unit::MbPerSecond,
        Goal::RatioAtLeast(0.25),
    );
    let mut text = Line::new(
        "256 MiB of text",
        Unit::MbPerSecond,
        Goal::RatioAtLeast(0.5),
    );
    let mut health = Line::new("health p99 under 32 clients", Unit::Ms, Goal::AtMost(10.0));
    let daemon = Daemon::start(root, &[])?;
    let (mut client, mut gate) = (daemon.client()?, daemon.client()?);
    for round in 0..plan.rounds {
        if want(stream.name) || want(poll.name) {
            short_commands(
                &mut client,
                ssh,
                plan.batch,
                round,
                [&mut stream, &mut poll],
            )?;
        }
        if want(rate.name) {
            rate.limit
                .push(commands::rate(plan.each, |_| Ok(|_| commands::by_spawn()))?);
            rate.ours
                .push(commands::daemon_rate(&daemon, plan.each, round)?);
            if let Some(ssh) = ssh {
                let each = plan.each.div_ceil(8);
                rate.ssh
                    .push(commands::rate(each, |_| Ok(|_| commands::by_ssh(ssh)))?);
            }
        }
        for (line, kind) in [(&mut zeros, Kind::Zeros), (&mut text, Kind::Text)] {
            if want(line.name) {
                line.limit.push(throughput::by_pipe(kind)?);
                let id = format!("bulk-{kind:?}-{round}");
                line.ours.push(
                    match throughput::by_stream(&mut client, &mut gate, kind, &id) {
                        Ok(rate) => rate,
                        // Bytes that did not arrive are no throughput: the round counts as none.
                        Err(failure) => {
                            say(&format!("{}: {failure}", line.name));
                            client = daemon.client()?;
                            0.0
                        }
                    },
                );
                if let Some(ssh) = ssh {
                    line.ssh.push(throughput::by_ssh(ssh, kind)?);
                }
            }
        }
        if want(health.name) {
            health
                .ours
                .push(health::p99_under_load(&daemon, plan.watch, round)?);
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
        say(&told);
    }
    let lines = [stream, poll, rate, zeros, text, health];
    Ok(lines
        .into_iter()
        .filter(|line| !line.ours.is_empty())
        .collect())
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
        line.limit.push(median(&times[0]));
        line.ours.push(median(&times[slot]));
        if ssh.is_some() {
            line.ssh.push(median(&times[3]));
        }
    }
    Ok(())
}

fn of_fresh_daemons(root: &Path, plan: Plan, want: &dyn Fn(&str) -> bool) -> Outcome<Vec<Line>> {
    let mut cold = Line::new("cold start to first health", Unit::Ms, Goal::AtMost(80.0));
    let mut idle = Line::new("idle memory", Unit::Mb, Goal::AtMost(45.0));
    let mut acked = Line::new("memory after 5,000 acked", Unit::Mb, Goal::AtMost(15.0));
    let mut unacked = Line::new(
        "memory of 200 unacked of 16 MiB",
        Unit::Mb,
        Goal::AtMost(120.0),
    );
    let mut moved = Line::new("memory after transfers", Unit::Mb, Goal::AtMost(10.0));
    if want(cold.name) {
        for _ in 0..plan.rounds {
            cold.ours.push(memory::cold_start(root)?);
        }
    }
    if want(idle.name) || want(acked.name) {
        for turn in 0..plan.rounds.min(3) {
            let (before, more) = memory::after_acked(root, plan.acked)?;
            let turn = turn + 1;
            say(&format!(
                "memory {turn}: idle {before:.1} MB, {more:.1} MB more when acked"
            ));
            idle.ours.push(before);
            acked.ours.push(more);
        }
    }
    if want(moved.name) {
        for _ in 0..plan.rounds.min(3) {
            moved.ours.push(memory::after_transfers(root)?);
        }
    }
    if want(unacked.name) {
        let begin = Instant::now();
        unacked
            .ours
            .push(memory::with_unacked(root, plan.unacked, |done| {
                if done % 50 == 0 {
                    say(&format!(
                        "{done} unacked outputs after {:.0?}",
                        begin.elapsed()
                    ));
                }
            })?);
    }
    let lines = [cold, idle, acked, moved, unacked];
    Ok(lines
        .into_iter()
        .filter(|line| !line.ours.is_empty())
        .collect())
}
