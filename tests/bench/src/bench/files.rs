//! Files and trees, against `cp`, nginx and GNU tar on the same files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{health, memory, say};
use crate::Outcome;
use crate::daemon::Daemon;
use crate::figures::{Goal, Line, Unit, percentile};
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
    let mut more = Line::new("memory of transfers", Unit::Mb, Goal::AtMost(60.0));
    more.ours.push(daemon.usage()?.peak as f64 / 1e6 - idle);
    lines.push(more);
    Ok(lines)
}

fn files(daemon: &Daemon, memory: &Place, disk: &Place, rounds: usize) -> Outcome<Vec<Line>> {
    let rate = Unit::MbPerSecond;
    let mut of_cp = Line::new("500 MiB up to tmpfs, of cp", rate, Goal::RatioAtLeast(0.6));
    let mut of_put = Line::new(
        "500 MiB up to tmpfs, of nginx",
        rate,
        Goal::RatioAtLeast(1.0),
    );
    let mut to_disk = Line::new(
        "500 MiB up to disk, of nginx",
        rate,
        Goal::RatioAtLeast(0.9),
    );
    let mut down = Line::new("500 MiB down, of nginx", rate, Goal::RatioAtLeast(0.55));
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
        both(
            round,
            &mut of_cp,
            || by_daemon(memory),
            || copied().and_then(|_| copied()),
        )?;
        if let [Some(in_memory), Some(on_disk)] = &nginx {
            let by_nginx = |nginx: &Nginx, place: &Place| -> Outcome<f64> {
                copied()?;
                let secs = upload(nginx.address, "/theirs", &source)?;
                fs::remove_file(place.path("theirs"))?;
                Ok(mb(secs))
            };
            both(
                round,
                &mut of_put,
                || by_daemon(memory),
                || by_nginx(in_memory, memory),
            )?;
            both(
                round,
                &mut to_disk,
                || by_daemon(disk),
                || by_nginx(on_disk, disk),
            )?;
            let url = memory.url("file", "source");
            let ours = || whole(download(daemon.address, &url, None)?);
            both(round, &mut down, ours, || {
                whole(download(in_memory.address, "/source", None)?)
            })?;
        }
        say(&format!("files, round {} of {rounds}", round + 1));
    }
    Ok([of_cp, of_put, to_disk, down]
        .into_iter()
        .filter(|line| !line.ours.is_empty())
        .collect())
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
        line.limit.push(limit()?);
        line.ours.push(ours()?);
    } else {
        line.ours.push(ours()?);
        line.limit.push(limit()?);
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
    let mut line = Line::new(name, Unit::Ms, Goal::AtMost(50.0));
    let source = memory.path("source");
    for round in 0..rounds {
        let (stop, under_way) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let times = thread::scope(|scope| -> Outcome<Vec<f64>> {
            let uploads: Vec<_> = (0..UPLOADS)
                .map(|number| {
                    let (stop, under_way, source) = (&stop, &under_way, &source);
                    let path = slow.path().join(format!("file{number}"));
                    let target = format!("/v1/fs/file?path={}", path.display());
                    scope.spawn(move || -> Outcome<()> {
                        loop {
                            let mut connection = Connection::open(daemon.address)?;
                            lock(under_way).push(connection.reader.get_ref().try_clone()?);
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                            let put = put(&mut connection, &target, source);
                            // Such an upload takes many rounds: one that is cut is no failure.
                            if !stop.load(Ordering::Relaxed) {
                                put?;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            let times = health::watch(daemon, WATCH, ASKED_EVERY);
            stop.store(true, Ordering::Relaxed);
            for socket in lock(&under_way).iter() {
                let _ = socket.shutdown(Shutdown::Both);
            }
            for upload in uploads {
                upload.join().map_err(|_| "an upload panicked")??;
            }
            times
        });
        line.ours.push(percentile(&times?, 0.99));
        say(&format!(
            "health beside uploads, round {} of {rounds}",
            round + 1
        ));
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
        let mut up = Line::new(up_name, Unit::Ms, Goal::RatioAtMost(1.6));
        let mut down = Line::new(down_name, Unit::Ms, Goal::RatioAtMost(1.2));
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
        for round in 0..rounds {
            let into = place.path("packed");
            let ours = || -> Outcome<f64> {
                warm()?;
                let secs = download(daemon.address, &place.url("tar", tree), Some(&into))?.0;
                fs::remove_file(&into)?;
                Ok(secs * 1e3)
            };
            let theirs = || -> Outcome<f64> {
                warm()?;
                let secs = timed("tar", &["-cf", text(&into), "-C", text(&source), "."])?;
                fs::remove_file(&into)?;
                Ok(secs * 1e3)
            };
            both(round, &mut down, ours, theirs)?;
            say(&format!(
                "{tree} tree down, round {} of {rounds}",
                round + 1
            ));
        }
        for round in 0..rounds {
            let ours = || -> Outcome<f64> {
                warm()?;
                let secs = upload(daemon.address, &place.url("tar", "extracted"), &archive)?;
                fs::remove_dir_all(place.path("extracted"))?;
                Ok(secs * 1e3)
            };
            let theirs = || -> Outcome<f64> {
                let into = place.path("theirs");
                fs::create_dir(&into)?;
                warm()?;
                let secs = timed("tar", &["-xf", text(&archive), "-C", text(&into)])?;
                fs::remove_dir_all(into)?;
                Ok(secs * 1e3)
            };
            both(round, &mut up, ours, theirs)?;
            say(&format!("{tree} tree up, round {} of {rounds}", round + 1));
        }
        lines.extend([up, down]);
    }
    Ok(lines)
}
