//! Reading and reaping exits: leaders by their pidfd, orphans on the main thread.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

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
    let _ =
        rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED));
}

/// Reaps a child that nobody keeps, if it has ended.
pub fn reap_if_ended(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
    }
}

/// Reaps every orphan that has ended; returns their number.
///
/// Call it on the main thread: orphans become the main thread's children, while leaders are the
/// spawner thread's and are not looked at (`__WNOTHREAD`), so they stay zombies as long as needed.
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

/// The thread that takes SIGCHLD; 0 until [`take_child_exits`].
static TAKER: AtomicI32 = AtomicI32::new(0);

/// Any thread that does not block the signal may get it, and each exit would wake one that has
/// nothing to do with it: V8's, mostly. Whoever is not meant blocks it from then on, so that the
/// kernel soon finds none but the one that is.
extern "C" fn on_sigchld(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let one = 1u64;
    // SAFETY: write and gettid are async-signal-safe, and write gets eight bytes of a local; errno
    // is put back, for the interrupted code may be about to read it. `context` is the kernel's, for
    // the handler was set with SA_SIGINFO: the mask in it is the one that the thread goes on with,
    // and sigaddset only sets a bit of it.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(NOTIFY.load(Ordering::Relaxed), (&raw const one).cast(), 8);
        let taker = TAKER.load(Ordering::Relaxed);
        if taker != 0 && libc::gettid() != taker {
            let context: *mut libc::ucontext_t = context.cast();
            libc::sigaddset(&raw mut (*context).uc_sigmask, libc::SIGCHLD);
        }
        *errno = saved;
    }
}

/// Blocks or unblocks SIGCHLD for the calling thread.
fn change_mask(how: libc::c_int) {
    // SAFETY: both functions demand a writable, then initialised set: a local.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

/// Lets SIGCHLD arrive on the calling thread, whatever mask it inherited, and on no other.
pub fn take_child_exits() {
    // SAFETY: gettid takes nothing and always succeeds.
    TAKER.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    change_mask(libc::SIG_UNBLOCK);
}

/// From now on every SIGCHLD adds to `eventfd`, which must stay open for the process's life:
/// the handler has no owner that could take it back in time.
pub fn on_child_exit(eventfd: OwnedFd) -> rustix::io::Result<()> {
    use std::os::fd::IntoRawFd;
    NOTIFY.store(eventfd.into_raw_fd(), Ordering::Relaxed);
    // Deno's main thread, which calls this, is not to be interrupted at every exit: the reactor
    // takes the signal instead.
    change_mask(libc::SIG_BLOCK);
    // SAFETY: sigaction demands a valid action: zeroed, then a handler that is async-signal-safe.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigchld
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) < 0
    };
    if failed {
        Err(rustix::io::Errno::INVAL)
    } else {
        Ok(())
    }
}
