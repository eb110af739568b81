//! What can go wrong with a transfer: a status for the code that branches, a sentence for people.

use std::fmt::Write;
use std::path::Path;

use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

/// The path names a directory where a file is needed.
pub const IS_DIRECTORY: i32 = 10_001;
/// The path names neither a regular file nor a directory.
pub const NOT_REGULAR: i32 = 10_002;
/// The path names something that is no directory where one is needed.
pub const NOT_DIRECTORY: i32 = 10_003;
/// The file system is under the reserve.
pub const UNDER_RESERVE: i32 = 10_004;
/// More members or bytes than allowed.
pub const OVER_LIMIT: i32 = 10_005;
/// The archive is not one that is extracted.
pub const REFUSED: i32 = 10_006;
/// The handle was closed meanwhile.
pub const CANCELLED: i32 = 10_007;

/// Why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// An errno, or one of the codes above.
    pub status: i32,
    /// One line: what was tried, on which path.
    pub text: String,
}

impl Failure {
    /// A failure with a code of ours.
    pub fn new(status: i32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    /// A system call that failed: "Cannot `what` `path`".
    pub fn of(what: &str, path: &Path, errno: Errno) -> Self {
        Self::new(
            errno.raw_os_error(),
            format!("Cannot {what} {}", shown(path)),
        )
    }
}

/// A path as one line of text: what is not UTF-8 is replaced, control characters are escaped.
pub fn shown(path: &Path) -> String {
    shown_bytes(path.as_os_str().as_bytes())
}

/// Longest name that is shown whole, in bytes: no path of a system call is longer.
const SHOWN_BYTES: usize = 4096;

/// Bytes of a name as one line of text, see [`shown`]. One that only an archive can have is shortened
/// in its middle, so that what is said of it is seen.
pub fn shown_bytes(name: &[u8]) -> String {
    if name.len() > SHOWN_BYTES {
        let (head, tail) = (
            &name[..SHOWN_BYTES / 2],
            &name[name.len() - SHOWN_BYTES / 2..],
        );
        return format!("{}[...]{}", shown_bytes(head), shown_bytes(tail));
    }
    let mut text = String::with_capacity(name.len());
    for char in String::from_utf8_lossy(name).chars() {
        if char.is_control() || char == '\u{2028}' || char == '\u{2029}' {
            let _ = write!(text, "{}", char.escape_unicode());
        } else {
            text.push(char);
        }
    }
    text
}
