//! An identity of its own for a guest that may be a copy: what a snapshot's clones would share is
//! made anew. Each step works beneath a root directory, so that tests never touch the machine's own
//! files.

mod boot_id;
mod files;
mod kernel;

use std::path::Path;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it had to.
    Repaired,
    /// There is nothing here that could be shared.
    NotApplicable,
    /// What is shared may still be there.
    Failed(Errno),
}

impl From<Result<bool, Errno>> for Outcome {
    /// `true` says that there was something to repair.
    fn from(result: Result<bool, Errno>) -> Self {
        match result {
            Ok(true) => Self::Repaired,
            Ok(false) => Self::NotApplicable,
            Err(errno) => Self::Failed(errno),
        }
    }
}

/// How many steps there are.
pub const STEPS: usize = 5;

/// All steps, in the order in which they are made: the machine's id, the message bus's copy of it,
/// the boot id, the stored random seed, the kernel's random generator. One that fails stops no other.
/// `secret` is what only this guest was given, mixed into the generator; it may be empty.
pub fn repair(root: &Path, secret: &[u8]) -> [Outcome; STEPS] {
    // First of all, so that the new ids come from it; its place in the answer is the last.
    let generator = kernel::reseed(root, secret).into();
    let ids = random_id().and_then(|machine| Ok((machine, random_id()?)));
    let (machine, bus, boot) = match ids {
        Ok((machine, boot)) => (
            files::machine_id(root, &machine).into(),
            files::bus_id(root, &machine).into(),
            boot_id::replace(root, &boot).into(),
        ),
        Err(errno) => {
            let failed = Outcome::Failed(errno);
            (failed, failed, failed)
        }
    };
    let seed = files::remove_seeds(root).into();
    [machine, bus, boot, seed, generator]
}

/// The outcomes as one number, a byte each, the first lowest: 0 repaired, 255 not applicable, else
/// an errno.
pub fn pack(outcomes: &[Outcome; STEPS]) -> i64 {
    outcomes.iter().rev().fold(0, |packed, outcome| {
        let byte = match outcome {
            Outcome::Repaired => 0,
            Outcome::NotApplicable => 255,
            Outcome::Failed(errno) => i64::from(errno.raw_os_error().clamp(1, 254)),
        };
        packed << 8 | byte
    })
}

/// A random UUID (version 4), as 32 hexadecimal digits.
fn random_id() -> Result<String, Errno> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// An error of the standard library as the kernel's.
fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
