//! An identity of its own for a guest that may be a copy: what a snapshot's clones would share is
//! made anew. Each step works beneath a root directory, so that tests never touch the machine's own
//! files.

mod boot_id;
mod files;
mod kernel;

use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::abi::errno_of;

/// What a step came to: `true` where it did what it had to, `false` where there is nothing that could
/// be shared. After an error what is shared may still be there.
pub type Outcome = Result<bool, Errno>;

/// How many steps there are.
pub const STEPS: usize = 5;

/// All steps, in the order in which they are made: the machine's id, the message bus's copy of it,
/// the boot id, the stored random seed, the kernel's random generator. One that fails stops no other.
/// `secret` is what only this guest was given, mixed into the generator; it may be empty.
pub fn repair(root: &Path, secret: &[u8]) -> [Outcome; STEPS] {
    // First of all, so that the new ids come from it; its place in the answer is the last.
    let generator = kernel::reseed(root, secret);
    let machine = random_id();
    let name = |step: fn(&Path, &str) -> io::Result<bool>, id: &Result<String, Errno>| {
        step(root, id.as_deref().map_err(|errno| *errno)?)
    };
    let outcomes = [
        name(files::machine_id, &machine),
        name(files::bus_id, &machine),
        name(boot_id::replace, &random_id()),
        files::remove_seeds(root),
        generator,
    ];
    outcomes.map(|outcome| outcome.map_err(errno_of))
}

/// The outcomes as one number, a byte each, the first lowest: 0 repaired, 255 not applicable, else
/// an errno.
pub fn pack(outcomes: &[Outcome; STEPS]) -> i64 {
    outcomes.iter().rev().fold(0, |packed, outcome| {
        let byte = match outcome {
            Ok(true) => 0,
            Ok(false) => 255,
            Err(errno) => i64::from(errno.raw_os_error().clamp(1, 254)),
        };
        packed << 8 | byte
    })
}

/// A random UUID (version 4), as 32 hexadecimal digits.
fn random_id() -> Result<String, Errno> {
    let mut bytes = [0u8; 16];
    // So few come whole.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What was found, if anything was.
fn unless_absent<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            Ok(None)
        }
        found => found.map(Some),
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
