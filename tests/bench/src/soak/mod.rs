//! Commands of mixed kinds from many clients that get lost and come back: nothing may be lost,
//! nothing fabricated, and nothing stay behind.

mod checks;
mod kinds;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Usage};
use crate::{Failure, Outcome};
use fastrand::Rng;
use serde_json::Value;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Commands in all.
    pub commands: usize,
    /// Clients at once.
    pub clients: usize,
    /// At rest after the end, anonymous memory may be so many bytes above that of the start.
    pub growth: u64,
    /// Whether progress is told.
    pub talkative: bool,
}

impl Plan {
    /// What `build.sh soak` runs.
    pub const LONG: Self = Self {
        commands: 20_000,
        clients: 32,
        growth: 16_000_000,
        talkative: true,
    };
    /// What the test run runs.
    pub const SHORT: Self = Self {
        commands: 700,
        talkative: false,
        ..Self::LONG
    };
}

/// Acked execs are collected after this time, so that the daemon's memory shows what stays.
const TTL_SECS: &str = "2";
/// How long the daemon may take to forget everything, to give memory back, and to end the threads
/// that it does not need any more: its own go after five idle seconds, those of Deno's pool after ten.
const SETTLING: Duration = Duration::from_secs(30);

/// Shared by the clients.
struct Run {
    begin: Instant,
    next: AtomicUsize,
    done: AtomicUsize,
    first: Mutex<Option<Failure>>,
}

/// Runs the plan against the daemon of the checkout `root`. True if everything came to what it must
/// and nothing stayed behind; the first difference is the error.
pub fn run(root: &Path, plan: Plan) -> Outcome<bool> {
    let settings = [("GUESTD_EXEC_TTL_SECS", TTL_SECS)];
    let daemon = Daemon::start(root, &settings)?;
    let run = Run {
        begin: Instant::now(),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        first: Mutex::new(None),
    };
    let fresh = daemon.usage()?;
    let early = thread::scope(|scope| -> Outcome<Usage> {
        let clients: Vec<_> = (0..plan.clients)
            .map(|number| {
                let (daemon, run) = (&daemon, &run);
                scope.spawn(move || {
                    if let Err(failure) = client(daemon, run, plan, number) {
                        run.next.store(plan.commands, Ordering::Relaxed);
                        let mut first = run.first.lock().unwrap_or_else(|held| held.into_inner());
                        first.get_or_insert(failure);
                    }
                })
            })
            .collect();
        let early = watch(&daemon, &run, plan, || {
            clients.iter().all(|client| client.is_finished())
        });
        for client in clients {
            client.join().map_err(|_| "a client panicked")?;
        }
        early
    })?;
    if let Some(failure) = run
        .first
        .into_inner()
        .unwrap_or_else(|held| held.into_inner())
    {
        return Err(failure);
    }
    let left = settled(&daemon, fresh, plan.growth)?;
    report(plan, run.begin.elapsed(), fresh, early, left);
    Ok(true)
}

fn client(daemon: &Daemon, run: &Run, plan: Plan, number: usize) -> Outcome<()> {
    let mut random = Rng::with_seed(number as u64);
    let mut client = daemon.client()?;
    loop {
        let turn = run.next.fetch_add(1, Ordering::Relaxed);
        if turn >= plan.commands {
            return Ok(());
        }
        let kind = random.u64(..kinds::KINDS);
        let id = format!("soak-{turn}-{kind}");
        let told = |failure: Failure| Failure::from(format!("{id}: {failure}"));
        if let Some(expected) = kinds::run(&mut client, kind, &id, &mut random).map_err(told)? {
            if random.u8(..4) == 0 {
                client.reconnect()?;
            }
            client.settle(&id, &expected).map_err(told)?;
        }
        run.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells the progress until `ended`; gives the usage after a quarter of the commands.
fn watch(daemon: &Daemon, run: &Run, plan: Plan, ended: impl Fn() -> bool) -> Outcome<Usage> {
    let mut early = None;
    let mut told = Instant::now();
    while !ended() {
        thread::sleep(Duration::from_millis(20));
        let done = run.done.load(Ordering::Relaxed);
        if early.is_none() && done >= plan.commands / 4 {
            early = Some(daemon.usage()?);
        }
        if plan.talkative && told.elapsed() > Duration::from_secs(3) {
            told = Instant::now();
            let usage = daemon.usage()?;
            eprintln!(
                "soak: {done} of {} commands after {:.0?}; {:.1} MB, {} descriptors",
                plan.commands,
                run.begin.elapsed(),
                usage.rss as f64 / 1e6,
                usage.descriptors_told()
            );
        }
    }
    early.map_or_else(|| daemon.usage(), Ok)
}

/// Waits until no exec, no child, no descriptor or thread more than the `fresh` daemon had, and at
/// most `growth` bytes of memory more are left; what the daemon holds then.
fn settled(daemon: &Daemon, fresh: Usage, growth: u64) -> Outcome<Usage> {
    let begin = Instant::now();
    let mut client = daemon.client()?;
    loop {
        let health: Value = serde_json::from_str(&client.expect("GET", "/v1/health", None)?)?;
        let execs = &health["execs"];
        let children = daemon.children()?;
        if execs == 0 && children.is_empty() {
            break;
        }
        if begin.elapsed() > SETTLING {
            return Err(format!("left behind: {execs} execs, children {children:?}").into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    drop(client);
    // From outside: each question would give the threads of Deno's pool, which take turns, a reason
    // to stay.
    loop {
        thread::sleep(Duration::from_millis(250));
        let left = daemon.usage()?;
        let memory = left.anonymous.saturating_sub(fresh.anonymous);
        if left.descriptors <= fresh.descriptors
            && left.threads <= fresh.threads
            && memory <= growth
        {
            return Ok(left);
        }
        if begin.elapsed() > SETTLING {
            return Err(format!("left behind: {fresh:?} became {left:?}").into());
        }
    }
}

fn report(plan: Plan, took: Duration, fresh: Usage, early: Usage, left: Usage) {
    println!(
        "{} commands in {took:.1?}: every output and exit as expected",
        plan.commands
    );
    for (when, usage) in [
        ("before", fresh),
        ("after a quarter", early),
        ("at the end", left),
    ] {
        println!(
            "  {when:15} {:6.1} MB resident, {:6.1} MB anonymous, {:3} descriptors, {:3} threads",
            usage.rss as f64 / 1e6,
            usage.anonymous as f64 / 1e6,
            usage.descriptors_told(),
            usage.threads
        );
    }
}
