//! The boot id, which the kernel makes once and keeps: a file of our own is mounted over it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::mount_bind;

use super::errno;

const KERNEL: &str = "proc/sys/kernel/random/boot_id";
const DIRECTORY: &str = "run/guestd";
const SOURCE: &str = "run/guestd/boot_id";

/// Gives this boot a new id. Once the file is mounted, it is only written again: mounts that pile
/// up would never be seen, and never go away.
pub fn replace(root: &Path, id: &str) -> Result<bool, Errno> {
    let (kernel, source) = (root.join(KERNEL), root.join(SOURCE));
    if !kernel.exists() {
        return Ok(false);
    }
    let directory = root.join(DIRECTORY);
    fs::create_dir_all(&directory).map_err(errno)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).map_err(errno)?;
    // In place: the mount shows this very file. One write of a fixed length is seen whole.
    let text = format!(
        "{}-{}-{}-{}-{}\n",
        &id[0..8],
        &id[8..12],
        &id[12..16],
        &id[16..20],
        &id[20..32]
    );
    write(&source, &text)?;
    if !is_same(&kernel, &source)? {
        mount_bind(&source, &kernel)?;
    }
    Ok(true)
}

fn write(source: &Path, text: &str) -> Result<(), Errno> {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o444)
        .custom_flags(libc::O_NOFOLLOW)
        .open(source)
        .map_err(errno)?;
    file.set_permissions(fs::Permissions::from_mode(0o444))
        .map_err(errno)?;
    file.write_all_at(text.as_bytes(), 0).map_err(errno)
}

/// Whether one file is seen under both names, which it is once it is mounted.
fn is_same(one: &Path, other: &Path) -> Result<bool, Errno> {
    use std::os::unix::fs::MetadataExt;
    let (a, b) = (
        fs::metadata(one).map_err(errno)?,
        fs::metadata(other).map_err(errno)?,
    );
    Ok(a.dev() == b.dev() && a.ino() == b.ino())
}
