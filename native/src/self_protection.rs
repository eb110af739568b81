//! How the daemon protects itself from what its commands do to the guest. Children get the limits back that the guest
//! was made with.

use std::fs;
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit, setsid};

use crate::sync::lock;

const OOM_FILE: &str = "/proc/self/oom_score_adj";
/// The kernel's value for "never".
const NEVER: &str = "-1000";

const SHARE_FILE: &str = "/proc/self/autogroup";
/// Niceness of the session: some four times the share of a command's. With the largest the daemon
/// reads so eagerly that whoever writes to it gets no processor, and a flood takes twice as long.
const SHARE: &str = "-6";

/// Descriptors the daemon wants: each command takes four, each connection one, and an init is given
/// 4096 by the kernel.
const DESCRIPTORS: u64 = 1 << 16;

/// What the daemon was started with, and children set back; `None` where nothing was changed.
#[derive(Clone, Debug, Default)]
pub struct Original {
    /// Contents of oom_score_adj.
    pub oom_score: Option<Vec<u8>>,
    /// Soft and hard limit of open descriptors.
    pub descriptors: Option<[u64; 2]>,
}

/// Takes this process out of the kernel's choice when memory runs out, so that a command goes
/// first and not the daemon that could still end it; makes room for many commands; and goes before
/// them where many want a processor. All these need root; what may not be had is not taken. A limit
/// of file sizes does not end it, either.
pub fn protect() -> Original {
    outlive_file_limit();
    take_share();
    Original {
        oom_score: take_oom_score(),
        descriptors: take_descriptors(),
    }
}

/// Where files may only become so large, a write beyond that is to fail, and not to end the daemon.
/// Children have the signal at its default, as every other.
#[allow(unsafe_code)]
fn outlive_file_limit() {
    // SAFETY: signal demands a valid signal, and a disposition that runs no code is safe anywhere.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The kernel shares processors out among sessions, and each command has one: niceness alone would
/// count only among the daemon's own threads. A session that is not its own, such as a terminal's,
/// is left as it is; an init begins without one.
fn take_share() {
    let own = getpid();
    if own.is_init() {
        let _ = setsid();
    }
    if session() == own.as_raw_nonzero().get() {
        let _ = fs::write(SHARE_FILE, SHARE);
    }
}

/// 0 for a session whose leader is outside this PID namespace, which rustix's `getsid` takes to be
/// impossible.
#[allow(unsafe_code)]
fn session() -> i32 {
    // SAFETY: getsid demands nothing; 0 means the calling process.
    unsafe { libc::getsid(0) }
}

fn take_oom_score() -> Option<Vec<u8>> {
    let before = fs::read(OOM_FILE).ok()?;
    fs::write(OOM_FILE, NEVER).ok()?;
    Some(before)
}

fn take_descriptors() -> Option<[u64; 2]> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = maximum?;
    if hard < DESCRIPTORS {
        // Where it may not be raised it stays as it is.
        let _ = set_descriptors(DESCRIPTORS, DESCRIPTORS);
    }
    let most = getrlimit(Resource::Nofile).maximum?;
    set_descriptors(most - reserved(most), most).ok()?;
    Some([current.unwrap_or(hard), hard])
}

fn set_descriptors(soft: u64, hard: u64) -> rustix::io::Result<()> {
    let wanted = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    setrlimit(Resource::Nofile, wanted)
}

/// How many of so many descriptors only a start may take: two or more starts' worth.
fn reserved(most: u64) -> u64 {
    (most / 4).min(64)
}

/// How many descriptors the process may have open, but for those that are reserved.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS)
}

/// Lets this process take the reserved descriptors, until it is dropped: clients that come at that moment may take them as
/// well, but not those that came before.
pub struct Reserve<'a> {
    _alone: MutexGuard<'a, ()>,
    soft: u64,
    hard: u64,
}

static RESERVE: Mutex<()> = Mutex::new(());

impl Reserve<'_> {
    /// Opens the reserve.
    pub fn open() -> Self {
        let alone = lock(&RESERVE);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let hard = maximum.unwrap_or(DESCRIPTORS);
        let _ = set_descriptors(hard, hard);
        Self {
            _alone: alone,
            soft: current.unwrap_or(hard),
            hard,
        }
    }
}

impl Drop for Reserve<'_> {
    fn drop(&mut self) {
        let _ = set_descriptors(self.soft, self.hard);
    }
}

/// Whether `signal` is ignored.
#[allow(unsafe_code)]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction demands null or valid pointers: the old action goes to a zeroed local,
    // nothing is changed.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const INSIDE: &str = "GUESTD_TEST_OUTSIDE_SESSION";

    #[test]
    fn a_session_led_from_outside_the_pid_namespace_is_left_as_it_is() {
        if std::env::var_os(INSIDE).is_some() {
            take_share();
            assert_eq!(session(), 0);
            return;
        }
        if !rustix::process::geteuid().is_root() {
            println!("skipped: a PID namespace needs root");
            return;
        }
        // The test is the namespace's second process: its first leads a session of its own.
        let name =
            "self_protection::tests::a_session_led_from_outside_the_pid_namespace_is_left_as_it_is";
        let status = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sh", "-c"])
            .arg("\"$0\" --exact \"$1\"; exit $?")
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(INSIDE, "1")
            .status()
            .unwrap();
        assert!(status.success(), "inside: {status}");
    }
}
