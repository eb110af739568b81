//! How long health takes while 32 clients start commands as fast as they can.
#![allow(unsafe_code)]

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
    let load = |number: usize, stop: &AtomicBool| -> Outcome<()> {
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
    };
    let times = beside(CLIENTS, load, |_| watch(daemon, span, EVERY))?;
    Ok(percentile(&times, 0.99))
}

/// What `measure` gives, on a thread of its own, while `count` threads work until they are told to
/// stop: by it, or behind it.
pub fn beside<T: Send>(
    count: usize,
    work: impl Fn(usize, &AtomicBool) -> Outcome<()> + Sync,
    measure: impl FnOnce(&AtomicBool) -> Outcome<T> + Send,
) -> Outcome<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (work, stop) = (&work, &stop);
        let spawn = |number| scope.spawn(move || work(number, stop));
        let workers: Vec<_> = (0..count).map(spawn).collect();
        let measured = scope.spawn(move || measure(stop)).join();
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| "a client panicked")??;
        }
        measured.map_err(|_| "the measurement panicked")?
    })
}

/// Whoever asks for health is on another machine, and waits for none of this one's processors: here
/// a real-time class, where it may be had, stands for that. Else a share of what is measured is how
/// long the asking thread itself was kept waiting by 32 clients and their commands.
fn wait_for_no_processor() {
    // SAFETY: sched_setscheduler demands an initialised parameter: all zeroes but for the priority;
    // 0 is the calling thread, and a refusal changes nothing.
    unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_RR, &parameter);
    }
}

/// Times of health in milliseconds over `span`, asked for every so often and
/// counted from when each was due.
pub fn watch(daemon: &Daemon, span: Duration, every: Duration) -> Outcome<Vec<f64>> {
    wait_for_no_processor();
    let mut client = daemon.client()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    let mut due = begin;
    while due < begin + span {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.expect("GET", "/v1/health", None)?;
        times.push(due.elapsed().as_secs_f64() * 1e3);
        due += every;
    }
    Ok(times)
}
