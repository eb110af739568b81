//! The clone, and the child up to its exec.
//!
//! The child shares the daemon's memory (`CLONE_VM`) while the spawner thread waits for its exec
//! (`CLONE_VFORK`). It therefore makes raw system calls only: glibc's own wrappers synchronise
//! threads in shared memory, allocate, or run handlers that belong to the parent.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::{getegid, geteuid, getgid, getgroups, getuid};

use super::exec::{Request, reap};
use crate::self_protection::Original;

/// The step at which a start failed.
#[repr(i64)]
#[derive(Clone, Copy)]
pub enum Step {
    Pipes = 1,
    Clone = 2,
    Session = 3,
    /// Descriptors 0, 1 and 2, and no other.
    Descriptors = 4,
    /// Dropping supplementary groups.
    Groups = 5,
    Group = 6,
    User = 7,
    Directory = 8,
    /// Finding and starting the program.
    Program = 9,
}

/// A start that failed at this step with this errno; nothing of it is left.
pub type SpawnFailure = (Step, i32);

/// The pid of a started child, which is also its session's and group's, and the pidfd that came with it.
pub type Child = (i32, OwnedFd);

/// The memory that a child runs on between its clone and its exec. It is reused: while a child is
/// on it, the spawner's thread is suspended.
pub struct Stack {
    base: *mut c_void,
}

const STACK_BYTES: usize = 64 << 10;
const GUARD_BYTES: usize = 64 << 10;

// SAFETY: Send demands that the mapping may be used from another thread: it belongs to this value
// alone and memory is not tied to the thread that mapped it.
unsafe impl Send for Stack {}

impl Stack {
    /// Maps a stack with a guard below it.
    pub fn new() -> rustix::io::Result<Self> {
        let length = STACK_BYTES + GUARD_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: mmap_anonymous demands that no existing mapping is replaced: the address is
        // left to the kernel.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        let stack = Self { base };
        // SAFETY: mprotect demands that nobody uses the range it closes: it was mapped just now.
        unsafe { mprotect(base, GUARD_BYTES, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// The end that it grows from.
    fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(STACK_BYTES + GUARD_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: munmap demands that nobody uses the range any more: children run on it only
        // inside `clone_child`, which borrows the stack.
        let _ = unsafe { munmap(self.base, STACK_BYTES + GUARD_BYTES) };
    }
}

/// What the child reads, prepared before the clone, and where it leaves its error.
struct Plan {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    candidates: Vec<*const c_char>,
    cwd: *const c_char,
    uid: Option<u32>,
    gid: Option<u32>,
    stdio: [RawFd; 3],
    oom_score: *const [u8],
    descriptors: Option<[u64; 2]>,
    failed: Option<SpawnFailure>,
}

/// The highest number of a signal.
const LAST_SIGNAL: usize = 64;
/// The kernel's own size of a signal set, in bytes.
const SIGSET_BYTES: usize = 8;

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let texts = strings.iter().map(|text| text.as_ptr());
    texts.chain([ptr::null()]).collect()
}

/// The user and group to become. A daemon that is not root may not drop its groups, so it changes
/// nothing where nothing would change: asked for its own user and group, with no others to drop.
fn changes(request: &Request) -> (Option<u32>, Option<u32>) {
    let (own_uid, own_gid) = (getuid().as_raw(), getgid().as_raw());
    let uid = request.uid.unwrap_or(own_uid);
    let gid = request.gid.unwrap_or(own_gid);
    let same = (uid, gid) == (own_uid, own_gid)
        && (own_uid, own_gid) == (geteuid().as_raw(), getegid().as_raw());
    let asked = request.uid.is_some() || request.gid.is_some();
    if asked && same && getgroups().is_ok_and(|all| all.iter().all(|id| id.as_raw() == own_gid)) {
        (None, None)
    } else {
        (request.uid, request.gid)
    }
}

/// Starts `request` with the given descriptors as its 0, 1 and 2 and what the daemon changed for
/// itself set back. Returns once its exec succeeded or it failed; a child that failed is reaped.
pub fn clone_child(
    request: &Request,
    stdio: [BorrowedFd<'_>; 3],
    original: &Original,
    stack: &mut Stack,
) -> Result<Child, SpawnFailure> {
    // The kernel takes this number for "unchanged": nobody who asks for it means that.
    for (id, step) in [(request.uid, Step::User), (request.gid, Step::Group)] {
        if id == Some(u32::MAX) {
            return Err((step, libc::EINVAL));
        }
    }
    let candidates = request.candidates();
    let (uid, gid) = changes(request);
    let mut plan = Plan {
        argv: pointers(&request.argv),
        envp: pointers(&request.envp),
        candidates: candidates.iter().map(|path| path.as_ptr()).collect(),
        cwd: request.cwd.as_deref().map_or(ptr::null(), CStr::as_ptr),
        uid,
        gid,
        stdio: stdio.map(|fd| fd.as_raw_fd()),
        oom_score: original.oom_score.as_deref().unwrap_or_default(),
        descriptors: original.descriptors,
        failed: None,
    };
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let plan_ptr: *mut Plan = &mut plan;
    let old_mask = set_mask(u64::MAX);
    // SAFETY: clone demands a stack that only the child uses and that outlives its use: `stack` is
    // borrowed exclusively and CLONE_VFORK suspends this thread until the child has left it. It
    // demands an entry that may run in shared memory: `child_main` makes raw system calls on
    // memory prepared above and never unwinds. `plan` and `pidfd` outlive the call. All signals
    // are blocked, so no handler of the parent runs in the child.
    let pid = unsafe {
        libc::clone(
            child_main,
            stack.top(),
            flags,
            plan_ptr.cast(),
            &mut pidfd as *mut c_int,
        )
    };
    let errno = std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EAGAIN);
    set_mask(old_mask);
    if pid < 0 {
        return Err((Step::Clone, errno));
    }
    // SAFETY: from_raw_fd demands an open descriptor that nobody else owns: the kernel made it for
    // this successful clone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: the read must see what the child wrote through the pointer: `plan` lives, and the
    // child is past its exec or dead. Volatile, because the compiler saw no write.
    match unsafe { ptr::read_volatile(&raw const (*plan_ptr).failed) } {
        None => Ok((pid, pidfd)),
        Some(failure) => {
            reap(&pidfd);
            Err(failure)
        }
    }
}

/// One system call without glibc's own function for it: its result, or the errno.
///
/// # Safety
/// What the kernel demands of the call's arguments.
unsafe fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> Result<usize, i32> {
    let mut all = [0; 5];
    all[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e] = all;
    // SAFETY: this function demands what the arguments must be. __errno_location always gives the calling
    // thread's own errno; in the child that is the suspended parent thread's, which looks at it
    // only after a failed clone.
    unsafe {
        match libc::syscall(number, a, b, c, d, e) {
            -1 => Err(*libc::__errno_location()),
            result => Ok(result as usize),
        }
    }
}

/// Sets this thread's mask and returns the old one. Raw, because glibc keeps two signals back.
fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    let (new, how) = (&raw const mask as usize, libc::SIG_SETMASK as usize);
    let arguments = [how, new, &raw mut old as usize, SIGSET_BYTES];
    // SAFETY: rt_sigprocmask demands two sets of SIGSET_BYTES bytes: both are locals of that size.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
    old
}

extern "C" fn child_main(plan: *mut c_void) -> c_int {
    let plan: *mut Plan = plan.cast();
    // SAFETY: the pointer is clone_child's own, to a plan that outlives this child; the parent's
    // thread is suspended, so the access is exclusive. exit_group ends the child alone: it is a
    // thread group of its own.
    unsafe {
        let failed = become_program(&*plan).err();
        ptr::write_volatile(&raw mut (*plan).failed, failed);
        let _ = call(libc::SYS_exit_group, [127]);
    }
    127
}

/// Makes the child what was asked for; returns only when it could not.
///
/// # Safety
/// Runs in a child that shares memory with its suspended parent, with every signal blocked and
/// pointers in `plan` that stay valid.
unsafe fn become_program(plan: &Plan) -> Result<(), SpawnFailure> {
    let at = |step| move |errno| (step, errno);
    // A kernel sigaction: handler, flags, restorer, mask.
    let default = [0u64; 4];
    // SAFETY: each system call below takes numbers, or pointers that the plan keeps valid as this
    // function demands; none of them touches memory of the parent beyond the plan.
    unsafe {
        call(libc::SYS_setsid, []).map_err(at(Step::Session))?;
        // Raw, because glibc hides two of them. Two others cannot be set, nor need they be.
        for number in 1..=LAST_SIGNAL {
            let arguments = [number, default.as_ptr() as usize, 0, SIGSET_BYTES];
            let _ = call(libc::SYS_rt_sigaction, arguments);
        }
        take_descriptors(plan.stdio).map_err(at(Step::Descriptors))?;
        set_oom_score(plan.oom_score);
        if let Some(limit) = &plan.descriptors {
            let (which, new) = (libc::RLIMIT_NOFILE as usize, limit.as_ptr() as usize);
            let _ = call(libc::SYS_prlimit64, [0, which, new, 0]);
        }
        if plan.uid.is_some() || plan.gid.is_some() {
            call(libc::SYS_setgroups, [0, 0]).map_err(at(Step::Groups))?;
        }
        if let Some(gid) = plan.gid {
            call(libc::SYS_setresgid, [gid as usize; 3]).map_err(at(Step::Group))?;
        }
        if let Some(uid) = plan.uid {
            call(libc::SYS_setresuid, [uid as usize; 3]).map_err(at(Step::User))?;
        }
        if !plan.cwd.is_null() {
            call(libc::SYS_chdir, [plan.cwd as usize]).map_err(at(Step::Directory))?;
        }
        set_mask(0);
        Err((Step::Program, execute(plan)))
    }
}

/// Moves the three descriptors to 0, 1 and 2 and closes all others.
///
/// # Safety
/// As [`become_program`].
unsafe fn take_descriptors(stdio: [RawFd; 3]) -> Result<(), i32> {
    // SAFETY: only descriptor numbers are passed; the table is the child's own copy, because
    // CLONE_FILES is not given.
    unsafe {
        let mut sources = [0; 3];
        // First out of the way of 0..2, so that no move overwrites a source that is still needed.
        for (source, fd) in sources.iter_mut().zip(stdio) {
            *source = call(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD as usize, 3])?;
        }
        for (target, source) in sources.iter().enumerate() {
            call(libc::SYS_dup3, [*source, target, 0])?;
        }
        call(libc::SYS_close_range, [3, u32::MAX as usize, 0])?;
    }
    Ok(())
}

/// Undoes the daemon's own protection. The kernel lets a child of vfork have a value of its own
/// although it shares the daemon's memory. A failure is not worth a failed start.
///
/// # Safety
/// As [`become_program`]; `score` is valid, and empty for nothing to do.
unsafe fn set_oom_score(score: *const [u8]) {
    if score.is_empty() {
        return;
    }
    let path = c"/proc/self/oom_score_adj".as_ptr() as usize;
    let (here, flags) = (libc::AT_FDCWD as usize, libc::O_WRONLY as usize);
    // SAFETY: open gets a C string, write a buffer that stays valid as demanded, of its own length.
    unsafe {
        if let Ok(fd) = call(libc::SYS_openat, [here, path, flags]) {
            let text = score.cast::<u8>() as usize;
            let _ = call(libc::SYS_write, [fd, text, score.len()]);
            let _ = call(libc::SYS_close, [fd]);
        }
    }
}

/// Tries the candidates in order, as execvp does, but without its shell fallback.
///
/// # Safety
/// As [`become_program`].
unsafe fn execute(plan: &Plan) -> i32 {
    let mut denied = false;
    let mut last = libc::ENOENT;
    let (argv, envp) = (plan.argv.as_ptr() as usize, plan.envp.as_ptr() as usize);
    for path in &plan.candidates {
        // SAFETY: execve demands null-terminated arrays of C strings: the plan keeps them.
        let Err(errno) = (unsafe { call(libc::SYS_execve, [*path as usize, argv, envp]) }) else {
            continue;
        };
        last = errno;
        match last {
            libc::EACCES => denied = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
            libc::ENAMETOOLONG | libc::ELOOP if plan.candidates.len() > 1 => {}
            _ => return last,
        }
    }
    if denied { libc::EACCES } else { last }
}
