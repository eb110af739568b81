//! Files and trees, against `cp`, nginx and GNU tar on the same files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{health, memory, say, say_round};
use crate::Outcome;
use crate::daemon::Daemon;
use crate::figures::Goal::{AtMost, RatioAtLeast, RatioAtMost};
use crate::figures::{Line, Unit, percentile};
use crate::http::Connection;
use crate::nginx::{self, Nginx};
use crate::slow_disk::SlowDisk;
use crate::transfer::{download, put, upload};

const FILE_BYTES: u64 = 500 << 20;
const BLOB_BYTES: u64 = 256 << 20;
const SMALL_FILES: usize = 20_000;
const UPLOADS: usize = 4;
/// A disk of the slower kind, in bytes a second.
const SLOW_BYTES_PER_SECOND: u64 = 50 << 20;
/// How long health is watched a round.
const WATCH: Duration = Duration::from_secs(3);
/// How often it is asked for: longer than one answer takes then, or each would wait for those before.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// A directory of the bench's own; removed with all it holds.
struct Place(PathBuf);

impl Place {
    fn new(within: &Path) -> Outcome<Self> {
        let path = within.join(format!("guestd-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path.canonicalize()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn url(&self, route: &str, name: &str) -> String {
        format!("/v1/fs/{route}?path={}", self.path(name).display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn noise(path: &Path, bytes: u64) -> Outcome<()> {
    let mut source = File::open("/dev/urandom")?.take(bytes);
    std::io::copy(&mut source, &mut File::create(path)?)?;
    Ok(())
}

/// Runs a command; the seconds it took.
fn timed(program: &str, arguments: &[&str]) -> Outcome<f64> {
    let begin = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("{program} ended with {status}").into());
    }
    Ok(begin.elapsed().as_secs_f64())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Measures all lines of files. `disk` is a directory on a real disk.
pub fn run(root: &Path, disk: &Path, rounds: usize) -> Outcome<Vec<Line>> {
    let daemon = Daemon::start(root, &[("GUESTD_DISK_RESERVE_BYTES", "0")])?;
    let idle = memory::resident(&daemon)?;
    daemon.forget_peak();
    let mut lines = Vec::new();
    let shm = Place::new(Path::new("/dev/shm"))?;
    let disk = Place::new(disk)?;
    lines.extend(files(&daemon, &shm, &disk, rounds)?);
    lines.extend(trees(&daemon, &shm, &disk, rounds)?);
    lines.extend(health_beside_uploads(&daemon, &shm, &disk, rounds)?);
    let mut more = Line::new("memory of transfers", Unit::Mb, AtMost(60.0));
    more.ours.push(daemon.usage()?.peak as f64 / 1e6 - idle);
    lines.push(more);
    Ok(lines)
}

fn files(daemon: &Daemon, memory: &Place, disk: &Place, rounds: usize) -> Outcome<Vec<Line>> {
    let rate = Unit::MbPerSecond;
    let mut of_cp = Line::new("500 MiB up to tmpfs, of cp", rate, RatioAtLeast(0.6));
    let mut of_put = Line::new("500 MiB up to tmpfs, of nginx", rate, RatioAtLeast(1.0));
    let mut to_disk = Line::new("500 MiB up to disk, of nginx", rate, RatioAtLeast(0.9));
    let mut down = Line::new("500 MiB down, of nginx", rate, RatioAtLeast(0.55));
    noise(&memory.path("source"), FILE_BYTES)?;
    let nginx = [nginx::start(&memory.0)?, nginx::start(&disk.0)?];
    if nginx.iter().any(Option::is_none) {
        say("nginx is not installed: its lines stay empty");
    }
    let mb = |secs: f64| FILE_BYTES as f64 / 1e6 / secs;
    let source = memory.path("source");
    for round in 0..rounds {
        let copied = || -> Outcome<f64> {
            let copy = memory.path("copy");
            let secs = timed("cp", &[text(&source), text(&copy)])?;
            fs::remove_file(copy)?;
            Ok(mb(secs))
        };
        // Memory that was free for a while may be the host's again, and whoever takes it first would have to fetch it.
        let by_daemon = |place: &Place| -> Outcome<f64> {
            copied()?;
            let secs = upload(daemon.address, &place.url("file", "ours"), &source)?;
            fs::remove_file(place.path("ours"))?;
            Ok(mb(secs))
        };
        let whole = |(secs, bytes): (f64, u64)| match bytes {
            FILE_BYTES => Ok(mb(secs)),
            _ => Err("a download was cut".into()),
        };
        let twice = || copied().and_then(|_| copied());
        both(round, &mut of_cp, || by_daemon(memory), twice)?;
        if let [Some(in_memory), Some(on_disk)] = &nginx {
            let by_nginx = |nginx: &Nginx, place: &Place| -> Outcome<f64> {
                copied()?;
                let secs = upload(nginx.address, "/theirs", &source)?;
                fs::remove_file(place.path("theirs"))?;
                Ok(mb(secs))
            };
            let ups = [
                (&mut of_put, in_memory, memory),
                (&mut to_disk, on_disk, disk),
            ];
            for (line, nginx, place) in ups {
                both(round, line, || by_daemon(place), || by_nginx(nginx, place))?;
            }
            let url = memory.url("file", "source");
            let ours = || whole(download(daemon.address, &url, None)?);
            let theirs = || whole(download(in_memory.address, "/source", None)?);
            both(round, &mut down, ours, theirs)?;
        }
        say_round("files", round, rounds);
    }
    Ok(vec![of_cp, of_put, to_disk, down])
}

/// A round of a line. Each begins every other time: whoever comes second finds what the first has left to be written
/// to the disk.
fn both(
    round: usize,
    line: &mut Line,
    ours: impl FnOnce() -> Outcome<f64>,
    limit: impl FnOnce() -> Outcome<f64>,
) -> Outcome<()> {
    if round % 2 == 0 {
        let limit = limit()?;
        line.add(limit, ours()?);
    } else {
        let ours = ours()?;
        line.add(limit()?, ours);
    }
    Ok(())
}

/// Health while four uploads to a slow disk follow each other without a pause.
fn health_beside_uploads(
    daemon: &Daemon,
    memory: &Place,
    disk: &Place,
    rounds: usize,
) -> Outcome<Option<Line>> {
    let Some(slow) = SlowDisk::mount(&disk.0, SLOW_BYTES_PER_SECOND)? else {
        say("no disk can be mounted and throttled here: the line beside slow uploads stays empty");
        return Ok(None);
    };
    let name = "health p99 beside 4 uploads to a slow disk";
    let mut line = Line::new(name, Unit::Ms, AtMost(50.0));
    let source = memory.path("source");
    for round in 0..rounds {
        let under_way = Mutex::new(Vec::new());
        let uploads = |number: usize, stop: &AtomicBool| -> Outcome<()> {
            let path = slow.path().join(format!("file{number}"));
            let target = format!("/v1/fs/file?path={}", path.display());
            loop {
                let mut connection = Connection::open(daemon.address)?;
                lock(&under_way).push(connection.reader.get_ref().try_clone()?);
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let put = put(&mut connection, &target, &source);
                // Such an upload takes many rounds: one that is cut is no failure.
                if !stop.load(Ordering::Relaxed) {
                    put?;
                }
            }
        };
        let times = health::beside(UPLOADS, uploads, |stop| {
            let times = health::watch(daemon, WATCH, ASKED_EVERY);
            stop.store(true, Ordering::Relaxed);
            for socket in lock(&under_way).iter() {
                let _ = socket.shutdown(Shutdown::Both);
            }
            times
        });
        line.ours.push(percentile(&times?, 0.99));
        say_round("health beside uploads", round, rounds);
    }
    Ok(Some(line))
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn trees(daemon: &Daemon, memory: &Place, place: &Place, rounds: usize) -> Outcome<Vec<Line>> {
    let small = place.path("small");
    for number in 0..SMALL_FILES {
        let dir = small.join(format!("d{:03}", number % 200));
        fs::create_dir_all(&dir)?;
        let content = vec![number as u8; 1024 + number * 7919 % 3072];
        File::create(dir.join(format!("f{number:05}")))?.write_all(&content)?;
    }
    fs::create_dir(place.path("large"))?;
    noise(&place.path("large/blob"), BLOB_BYTES)?;
    let mut lines = Vec::new();
    let names = [
        (
            "small",
            "20,000 small files up, of tar -x",
            "20,000 small files down, of tar -c",
        ),
        (
            "large",
            "a file of 256 MiB up, of tar -x",
            "a file of 256 MiB down, of tar -c",
        ),
    ];
    for (tree, up_name, down_name) in names {
        let mut up = Line::new(up_name, Unit::Ms, RatioAtMost(1.6));
        let mut down = Line::new(down_name, Unit::Ms, RatioAtMost(1.2));
        let (source, archive) = (place.path(tree), place.path("archive"));
        timed("tar", &["-cf", text(&archive), "-C", text(&source), "."])?;
        // As before each upload of a file.
        let warm = || -> Outcome<()> {
            let copies = [memory.path("warm"), memory.path("warmer")];
            for copy in &copies {
                fs::copy(&archive, copy)?;
            }
            Ok(copies.iter().try_for_each(fs::remove_file)?)
        };
        // What the lines before have left to be written is theirs.
        timed("sync", &[])?;
        // What is made is gone again before the next turn.
        let turn = |made: &Path, run: &dyn Fn() -> Outcome<f64>| -> Outcome<f64> {
            warm()?;
            let secs = run()?;
            match made.is_dir() {
                true => fs::remove_dir_all(made)?,
                false => fs::remove_file(made)?,
            }
            Ok(secs * 1e3)
        };
        let tar = |arguments: &[&str]| timed("tar", arguments);
        for round in 0..rounds {
            let into = place.path("packed");
            let url = place.url("tar", tree);
            let ours = || Ok(download(daemon.address, &url, Some(&into))?.0);
            let theirs = || tar(&["-cf", text(&into), "-C", text(&source), "."]);
            both(
                round,
                &mut down,
                || turn(&into, &ours),
                || turn(&into, &theirs),
            )?;
            say_round(format_args!("{tree} tree down"), round, rounds);
        }
        let (extracted, into) = (place.path("extracted"), place.path("theirs"));
        let url = place.url("tar", "extracted");
        for round in 0..rounds {
            let ours = || upload(daemon.address, &url, &archive);
            let theirs = || tar(&["-xf", text(&archive), "-C", text(&into)]);
            let theirs = || {
                fs::create_dir(&into)?;
                turn(&into, &theirs)
            };
            both(round, &mut up, || turn(&extracted, &ours), theirs)?;
            say_round(format_args!("{tree} tree up"), round, rounds);
        }
        lines.extend([up, down]);
    }
    Ok(lines)
}
