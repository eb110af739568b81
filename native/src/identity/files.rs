//! Identities that lie in files.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::unless_absent;

/// Where distributions keep the seed that the next boot's generator starts with.
const SEEDS: [&str; 6] = [
    "var/lib/systemd/random-seed",
    "var/lib/urandom/random-seed",
    "var/lib/random-seed",
    "var/lib/misc/random-seed",
    "var/lib/seedrng/seed.credit",
    "var/lib/seedrng/seed.no-credit",
];

/// Gives the machine a new id.
pub fn machine_id(root: &Path, id: &str) -> io::Result<bool> {
    let etc = root.join("etc");
    if !etc.is_dir() {
        return Ok(false);
    }
    write(&etc.join("machine-id"), id)?;
    Ok(true)
}

/// Gives the message bus the machine's new id, where it keeps one of its own: a link leads to the
/// machine's.
pub fn bus_id(root: &Path, id: &str) -> io::Result<bool> {
    let path = root.join("var/lib/dbus/machine-id");
    let found = unless_absent(fs::symlink_metadata(&path))?;
    if !found.is_some_and(|found| found.is_file()) {
        return Ok(false);
    }
    write(&path, id)?;
    Ok(true)
}

/// Removes the stored seeds: with a copy of one, two guests would draw the same numbers. All are
/// tried; the first failure counts.
pub fn remove_seeds(root: &Path) -> io::Result<bool> {
    let mut removed = Ok(false);
    for seed in SEEDS {
        let outcome = unless_absent(fs::remove_file(root.join(seed)));
        removed = removed.and_then(|before| Ok(before | outcome?.is_some()));
    }
    removed
}

/// Puts `id` and a line's end into the file at once: a reader sees the old id or the new one. A file
/// that cannot be replaced, because it is a mount, is written in place.
fn write(path: &Path, id: &str) -> io::Result<()> {
    let beside = path.with_extension("guestd");
    let replaced = create(&beside, id).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // What is left of the attempt is of no use; that it cannot be removed changes nothing.
        let _ = fs::remove_file(&beside);
    }
    match replaced.as_ref().map_err(io::Error::kind) {
        Err(ErrorKind::ResourceBusy | ErrorKind::ReadOnlyFilesystem) => {
            fs::write(path, format!("{id}\n"))
        }
        _ => replaced,
    }
}

fn create(path: &Path, id: &str) -> io::Result<()> {
    unless_absent(fs::remove_file(path))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(path)?;
    // Exact, whatever the umask.
    file.set_permissions(Permissions::from_mode(0o444))?;
    writeln!(file, "{id}")?;
    file.sync_all()
}
