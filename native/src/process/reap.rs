//! Reading and reaping exits: leaders by their pidfd, orphans on the main thread.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, getpgid, waitid};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

fn exit_of(status: WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

/// The exit of a process that stays a zombie; `None` while it lives.
pub fn peek(pidfd: &OwnedFd) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), options).ok()??;
    Some(exit_of(status))
}

/// Reaps a child that has ended or is about to: from here on its number may be used again.
pub fn reap(pidfd: &OwnedFd) {
    let wait = || waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    let _ = rustix::io::retry_on_intr(wait);
}

/// Reaps a child that has ended, if it is of the group `pgid`, whose number must not be anybody
/// else's: the child's may be by now.
pub fn reap_of_group(pid: i32, pgid: i32) {
    let pid = Pid::from_raw(pid);
    let group = getpgid(pid).map(|group| group.as_raw_nonzero().get());
    if let (Some(pid), true) = (pid, group == Ok(pgid)) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = waitid(WaitId::Pid(pid), options);
    }
}

/// Reaps every orphan that has ended; returns their number.
///
/// Call it on the main thread: orphans become the main thread's children, while leaders are the
/// spawner's and are not looked at (`__WNOTHREAD`), so they stay zombies as long as needed.
pub fn reap_orphans() -> i32 {
    let mut reaped = 0;
    loop {
        // SAFETY: waitid demands a writable siginfo_t: a zeroed local.
        let pid = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::__WNOTHREAD;
            if libc::waitid(libc::P_ALL, 0, &mut info, options) < 0 {
                return reaped;
            }
            info.si_pid()
        };
        if pid == 0 {
            return reaped;
        }
        reaped += 1;
    }
}

/// Whether `signal` is ignored.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction demands null or valid pointers: the old action goes to a zeroed local,
    // nothing is changed.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

/// The eventfd that the handler writes to; -1 until [`on_child_exit`].
static NOTIFY: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_sigchld(_signal: libc::c_int) {
    let one = 1u64;
    // SAFETY: write is async-signal-safe and gets eight bytes of a local; errno is put back, for
    // the interrupted code may be about to read it.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(NOTIFY.load(Ordering::Relaxed), (&raw const one).cast(), 8);
        *errno = saved;
    }
}

/// From now on every SIGCHLD adds to `eventfd`, which must stay open for the process's life:
/// the handler has no owner that could take it back in time.
pub fn on_child_exit(eventfd: OwnedFd) -> Result<(), Errno> {
    NOTIFY.store(eventfd.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: sigaction demands a valid action: zeroed, then a handler that is async-signal-safe.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigchld as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) < 0
    };
    if failed { Err(Errno::INVAL) } else { Ok(()) }
}
