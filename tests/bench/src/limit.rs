//! What the kernel alone can do: no daemon is faster than this.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::Outcome;

/// A child made by `posix_spawn`, with pipes on its stdout and stderr.
struct Spawned {
    pid: libc::pid_t,
    pipes: [File; 2],
}

fn pipe() -> Outcome<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: pipe2 demands room for two descriptors; each one it makes is owned here alone.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn spawn(argv: &[&str]) -> Outcome<Spawned> {
    let strings: Vec<CString> = argv
        .iter()
        .map(|text| CString::new(*text))
        .collect::<Result<_, _>>()?;
    let argv: Vec<*mut c_char> = strings
        .iter()
        .map(|text| text.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect();
    let envp: [*mut c_char; 2] = [c"PATH=/usr/bin:/bin".as_ptr().cast_mut(), ptr::null_mut()];
    let (out, out_child) = pipe()?;
    let (err, err_child) = pipe()?;
    let mut pid = 0;
    // SAFETY: the actions are initialised before use and destroyed after it; all strings and
    // arrays outlive the call.
    let failed = unsafe {
        let mut actions = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_adddup2(&mut actions, out_child.as_raw_fd(), 1);
        libc::posix_spawn_file_actions_adddup2(&mut actions, err_child.as_raw_fd(), 2);
        let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
        let failed = libc::posix_spawnp(&mut pid, *argv, &actions, ptr::null(), argv, envp);
        libc::posix_spawn_file_actions_destroy(&mut actions);
        failed
    };
    match failed {
        0 => Ok(Spawned {
            pid,
            pipes: [File::from(out), File::from(err)],
        }),
        errno => Err(std::io::Error::from_raw_os_error(errno).into()),
    }
}

/// Starts a command, reads its pipes to their end, waits for it; gives stdout to `each` in pieces
/// of at most 64 KiB. Returns its exit code.
pub fn run(argv: &[&str], mut each: impl FnMut(&[u8])) -> Outcome<i32> {
    let Spawned { pid, mut pipes } = spawn(argv)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match pipes[0].read(&mut buffer)? {
            0 => break,
            count => each(&buffer[..count]),
        }
    }
    while pipes[1].read(&mut buffer)? > 0 {}
    let mut status = 0;
    // SAFETY: waitpid demands room for a status; the child is ours and not waited for yet.
    if unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(libc::WEXITSTATUS(status))
}
