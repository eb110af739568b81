//! Resident memory, each time of a fresh daemon, and the time it takes to be there.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::commands::by_stream;
use super::say_round;
use crate::Outcome;
use crate::client::script;
use crate::daemon::Daemon;
use crate::http::Connection;

/// Bytes in a megabyte, as memory is told here.
const MB: f64 = 1e6;
/// How long a daemon is left alone before its memory is read.
const QUIET: Duration = Duration::from_millis(1500);

/// Milliseconds from the start of the process to its first health answer.
pub fn cold_start(root: &Path) -> Outcome<f64> {
    let begin = Instant::now();
    let daemon = Daemon::launch(root, &[])?;
    daemon.client()?.expect("GET", "/v1/health", None)?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Megabytes of a daemon that was left alone for a while.
pub fn resident(daemon: &Daemon) -> Outcome<f64> {
    thread::sleep(QUIET);
    Ok(daemon.usage()?.rss as f64 / MB)
}

/// A daemon that has its token, answered health and ran a few commands, and its idle megabytes.
fn idle(root: &Path) -> Outcome<(Daemon, f64)> {
    let daemon = Daemon::start(root, &[])?;
    let mut client = daemon.client()?;
    for turn in 0..3 {
        client.expect("GET", "/v1/health", None)?;
        let id = format!("warm-{turn}");
        by_stream(&mut client, &id)?;
        client.ack(&id)?;
    }
    drop(client);
    let megabytes = resident(&daemon)?;
    Ok((daemon, megabytes))
}

/// Idle megabytes, and how many more there are after `count` acked execs.
pub fn after_acked(root: &Path, count: usize) -> Outcome<(f64, f64)> {
    let (daemon, before) = idle(root)?;
    let mut client = daemon.client()?;
    for turn in 0..count {
        let id = format!("acked-{turn}");
        by_stream(&mut client, &id)?;
        client.ack(&id)?;
    }
    drop(client);
    Ok((before, resident(&daemon)? - before))
}

/// How many megabytes more there are after files went up and down over one connection, as long as that is kept: in the
/// small pieces that client libraries send, declared and in chunks.
pub fn after_transfers(root: &Path) -> Outcome<f64> {
    let (daemon, before) = idle(root)?;
    let path = format!("/dev/shm/guestd-bench-{}", daemon.pid());
    let target = format!("/v1/fs/file?path={path}");
    let mut connection = Connection::open(daemon.address)?;
    let piece = vec![b'x'; 32 << 10];
    let mut transfer = || -> Outcome<()> {
        for chunked in [false, true] {
            let status = connection.put(&target, &piece, 8192, chunked)?;
            if status != 204 {
                return Err(format!("an upload was answered with {status}").into());
            }
            let status = connection.request("GET", &target, None)?;
            let bytes = connection.drain(|_| Ok(()))?;
            if (status, bytes) != (200, piece.len() as u64 * 8192) {
                return Err(format!("a download was {status} with {bytes} bytes").into());
            }
        }
        Ok(())
    };
    let done = transfer().and_then(|()| transfer());
    let _ = fs::remove_file(&path);
    done?;
    Ok(resident(&daemon)? - before)
}

/// How many megabytes more there are with `count` unacked outputs of 16 MiB, half of each on
/// stdout and half on stderr.
pub fn with_unacked(root: &Path, count: usize) -> Outcome<f64> {
    let (daemon, before) = idle(root)?;
    let mut client = daemon.client()?;
    let output = "head -c 8388608 /dev/zero | tr '\\0' x; head -c 8388608 /dev/zero >&2";
    for turn in 0..count {
        let id = format!("unacked-{turn}");
        client.start(&script(&id, output))?;
        // From the end, so that nothing is read but the exit.
        let exit = client.follow(&id, 16 << 20, |_| Ok(()))?;
        if exit.code != Some(0) || exit.truncated || exit.offset != 16 << 20 {
            return Err(format!("a wrong exit: {exit:?}").into());
        }
        if turn % 50 == 49 {
            say_round("unacked outputs", turn, count);
        }
    }
    Ok(resident(&daemon)? - before)
}
