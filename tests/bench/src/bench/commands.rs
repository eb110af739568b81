//! Short commands: how long one takes, and how many go through with 32 clients at once.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use serde_json::json;

use crate::client::Client;
use crate::daemon::Daemon;
use crate::figures::median;
use crate::ssh::Ssh;
use crate::{Outcome, limit};

/// The command that does nothing.
pub const TRUE: &str = "/bin/true";
/// How many clients there are at once.
pub const CLIENTS: usize = 32;

/// Median milliseconds of `count` runs of `run`.
pub fn latency(count: usize, mut run: impl FnMut(usize) -> Outcome<()>) -> Outcome<f64> {
    let mut times = Vec::new();
    for turn in 0..count {
        let begin = Instant::now();
        run(turn)?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&times))
}

/// Start to exit by the stream.
pub fn by_stream(client: &mut Client, id: &str) -> Outcome<()> {
    client.start(&json!({ "exec_id": id, "command": [TRUE] }))?;
    let exit = client.follow(id, 0, |_| Ok(()))?;
    expect_zero(exit.code)
}

/// Start to exit by polls.
pub fn by_poll(client: &mut Client, id: &str) -> Outcome<()> {
    client.start(&json!({ "exec_id": id, "command": [TRUE] }))?;
    expect_zero(client.wait(id)?.code)
}

/// The limit: spawn, read the pipes to their end, wait.
pub fn by_spawn() -> Outcome<()> {
    expect_zero(Some(i64::from(limit::run(&[TRUE], |_| ())?)))
}

/// OpenSSH over its kept connection.
pub fn by_ssh(ssh: &Ssh) -> Outcome<()> {
    expect_zero(Some(i64::from(ssh.run(TRUE, |_| ())?)))
}

fn expect_zero(code: Option<i64>) -> Outcome<()> {
    match code {
        Some(0) => Ok(()),
        other => Err(format!("{TRUE} ended with {other:?}").into()),
    }
}

/// Runs a second with [`CLIENTS`] threads that make `each` of them, `make` giving each thread what
/// it runs.
pub fn rate<R: FnMut(usize) -> Outcome<()>>(
    each: usize,
    make: impl Fn(usize) -> Outcome<R> + Sync,
) -> Outcome<f64> {
    let (ready, done) = (Barrier::new(CLIENTS + 1), Barrier::new(CLIENTS + 1));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (ready, done, make) = (&ready, &done, &make);
                scope.spawn(move || -> Outcome<()> {
                    let made = make(number);
                    ready.wait();
                    let result = made.and_then(|mut run| (0..each).try_for_each(&mut run));
                    done.wait();
                    result
                })
            })
            .collect();
        ready.wait();
        let begin = Instant::now();
        done.wait();
        let seconds = begin.elapsed().as_secs_f64();
        for thread in threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok((CLIENTS * each) as f64 / seconds)
    })
}

/// Commands a second through the daemon, start to exit by the stream; acked behind the clock.
pub fn daemon_rate(daemon: &Daemon, each: usize, round: usize) -> Outcome<f64> {
    let id = |client: usize, turn: usize| format!("rate-{round}-{client}-{turn}");
    let id = &id;
    let rate = rate(each, |number| {
        let mut client = daemon.client()?;
        Ok(move |turn| by_stream(&mut client, &id(number, turn)))
    })?;
    let mut client = daemon.client()?;
    for number in 0..CLIENTS {
        for turn in 0..each {
            client.ack(&id(number, turn))?;
        }
    }
    Ok(rate)
}
