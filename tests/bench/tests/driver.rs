//! The driver as a person at a terminal has it: ended in the middle, or asked for what is not there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn driver() -> Command {
    let mut driver = Command::new(env!("CARGO_BIN_EXE_guestd-bench"));
    driver.stdin(Stdio::null()).stdout(Stdio::null());
    driver
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_driver_that_is_killed_leaves_no_daemon() {
    let mut soak = driver();
    soak.arg("soak").arg(root()).stderr(Stdio::null());
    let mut soak = soak.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", soak.id());
    let daemon = until(|| {
        let child = fs::read_to_string(&children).ok()?.trim().to_owned();
        let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (name.trim() == "deno").then_some(child)
    });
    soak.kill().unwrap();
    soak.wait().unwrap();
    // Whoever adopts it may take its time to reap it.
    until(
        || match fs::read_to_string(format!("/proc/{daemon}/stat")) {
            Ok(stat) => stat.contains(") Z ").then_some(()),
            Err(_) => Some(()),
        },
    );
}

#[test]
fn what_cannot_be_measured_or_written_is_refused() {
    // Where there is no daemon to measure, and no page to spoil.
    let nowhere = PathBuf::from("/nonexistent");
    for (root, options, told) in [
        (
            root(),
            &["--only", "nothing like it"][..],
            "there is no line",
        ),
        (
            nowhere,
            &["--only", "zeros", "--write"],
            "--write is for all lines",
        ),
    ] {
        let mut bench = driver();
        bench
            .arg("bench")
            .arg(root)
            .args(options)
            .stderr(Stdio::piped());
        let output = bench.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(told), "{error}");
    }
}

#[test]
fn whoever_is_not_root_can_soak_too() {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // The other soaks are this one.
    }
    let mut deno = Command::new(root().join(".tools/bin/deno"));
    deno.arg("--version")
        .stdout(Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY);
    if !deno.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this checkout is for root alone");
        return;
    }
    let mut soak = driver();
    soak.arg("soak")
        .arg(root())
        .arg("32")
        .uid(NOBODY)
        .gid(NOBODY);
    assert!(soak.status().unwrap().success());
}
