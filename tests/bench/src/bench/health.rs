//! How long health takes while 32 clients start commands as fast as they can.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::commands::{CLIENTS, by_stream};
use crate::Outcome;
use crate::daemon::Daemon;
use crate::figures::percentile;

/// Health is asked for this often.
const EVERY: Duration = Duration::from_millis(5);

/// The 99th percentile of health's time in milliseconds over `span`. Counted from when each
/// request was due, so that a stall is not hidden by the requests that it kept from being sent.
pub fn p99_under_load(daemon: &Daemon, span: Duration, round: usize) -> Outcome<f64> {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || -> Outcome<()> {
                    let mut client = daemon.client()?;
                    for turn in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let id = format!("load-{round}-{number}-{turn}");
                        by_stream(&mut client, &id)?;
                        client.ack(&id)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let times = watch(daemon, span);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok(percentile(&times?, 0.99))
    })
}

fn watch(daemon: &Daemon, span: Duration) -> Outcome<Vec<f64>> {
    let mut client = daemon.client()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut due = begin;
    while due < begin + span {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.expect("GET", "/v1/health", None)?;
        times.push(due.elapsed().as_secs_f64() * 1e3);
        due += EVERY;
    }
    Ok(times)
}
