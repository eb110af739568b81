//! Identities that lie in files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::errno;

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
pub fn machine_id(root: &Path, id: &str) -> Result<bool, Errno> {
    let etc = root.join("etc");
    if !etc.is_dir() {
        return Ok(false);
    }
    write(&etc.join("machine-id"), id)?;
    Ok(true)
}

/// Gives the message bus the machine's new id, where it keeps one of its own.
pub fn bus_id(root: &Path, id: &str) -> Result<bool, Errno> {
    let path = root.join("var/lib/dbus/machine-id");
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() => write(&path, id).map(|()| true),
        // A link leads to the machine's own.
        Ok(_) => Ok(false),
        Err(error) => absent(error).map(|()| false),
    }
}

/// Removes the stored seeds: with a copy of one, two guests would draw the same numbers. All are
/// tried; the first failure counts.
pub fn remove_seeds(root: &Path) -> Result<bool, Errno> {
    let mut removed = Ok(false);
    for seed in SEEDS {
        let outcome = match fs::remove_file(root.join(seed)) {
            Ok(()) => Ok(true),
            Err(error) => absent(error).map(|()| false),
        };
        removed = removed.and_then(|before| Ok(before | outcome?));
    }
    removed
}

fn absent(error: std::io::Error) -> Result<(), Errno> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(()),
        _ => Err(errno(error)),
    }
}

/// Puts `id` and a line's end into the file at once: a reader sees the old id or the new one. A file
/// that cannot be replaced, because it is a mount, is written in place.
fn write(path: &Path, id: &str) -> Result<(), Errno> {
    let mut name = path.as_os_str().to_owned();
    name.push(".guestd");
    let beside = PathBuf::from(name);
    let replaced = fs::remove_file(&beside)
        .or_else(|error| absent(error).map_err(std::io::Error::from))
        .and_then(|()| create(&beside, id))
        .and_then(|()| fs::rename(&beside, path));
    let Err(error) = replaced else {
        return Ok(());
    };
    // What is left of the attempt is of no use; that it cannot be removed changes nothing.
    let _ = fs::remove_file(&beside);
    match errno(error) {
        Errno::BUSY | Errno::ROFS => fs::write(path, format!("{id}\n")).map_err(errno),
        errno => Err(errno),
    }
}

fn create(path: &Path, id: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(path)?;
    // Exact, whatever the umask.
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    writeln!(file, "{id}")?;
    file.sync_all()
}
