//! What whoever starts the daemon is to know: which kernel it needs, and that it is ready.

use std::ffi::OsStr;
use std::io::Result;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A call's name, and whether the kernel grants it.
type Needed = (&'static str, fn() -> bool);

/// System calls without which commands could not be started or ended, nor trees be kept beneath their root, the newest first
/// and with the kernel that brought each. What else the daemon calls is older than all of them.
const NEEDED: [Needed; 4] = [
    ("close_range (Linux 5.9)", has_close_range),
    ("openat2 (Linux 5.6)", has_openat2),
    ("waitid of a pidfd (Linux 5.4)", has_waitid_of_pidfd),
    ("pidfd_open (Linux 5.3)", has_pidfd_open),
];

/// The first of the calls that the kernel does not have, or a filter does not permit.
pub fn missing_call() -> Option<&'static str> {
    let missing = NEEDED.iter().find(|(_, has)| !has());
    missing.map(|(name, _)| *name)
}

// Each is asked for what no kernel grants, and a kernel that has it says what is wrong with that.

fn has_close_range() -> bool {
    // The first descriptor is behind the last.
    says(libc::EINVAL, libc::SYS_close_range, [1, 0, 0, 0, 0])
}

fn has_openat2() -> bool {
    // The size of what should be opened, and how, is 0.
    says(libc::EINVAL, libc::SYS_openat2, [0; 5])
}

fn has_waitid_of_pidfd() -> bool {
    // No process has so many descriptors. A kernel that knows no pidfd here complains of its kind: EINVAL.
    let nobody = i32::MAX as usize;
    let exited = libc::WEXITED as usize;
    says(
        libc::EBADF,
        libc::SYS_waitid,
        [libc::P_PIDFD as usize, nobody, 0, exited, 0],
    )
}

fn has_pidfd_open() -> bool {
    // There is no process 0.
    says(libc::EINVAL, libc::SYS_pidfd_open, [0; 5])
}

/// Whether a system call fails with `errno`.
#[allow(unsafe_code)]
fn says(errno: i32, number: libc::c_long, arguments: [usize; 5]) -> bool {
    let [a, b, c, d, e] = arguments;
    // SAFETY: syscall demands what the kernel demands of the call's arguments. Those above are refused before
    // anything is read, written or changed by them: no pointer among them is used.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(errno)
}

/// Tells the service manager that listens at `address`, a path or behind `@` a name without a file, that the daemon is
/// ready: sd_notify(3).
pub fn ready(address: &[u8]) -> Result<()> {
    let to = match address.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(address))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &to)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_every_call() {
        assert_eq!(missing_call(), None);
    }

    #[test]
    fn a_call_that_fails_in_another_way_is_missing() {
        assert!(!says(libc::ENOSYS, libc::SYS_openat2, [0; 5]));
        assert!(!says(libc::EINVAL, libc::SYS_getpid, [0; 5]));
    }

    #[test]
    fn a_manager_without_a_file_is_told_too() {
        let name = format!("guestd-test-{}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&at).unwrap();
        ready(format!("@{name}").as_bytes()).unwrap();
        let mut told = [0; 16];
        assert_eq!(manager.recv(&mut told).unwrap(), 7);
        assert_eq!(&told[..7], b"READY=1");
        assert!(ready(b"@nobody-listens-here").is_err());
    }
}
