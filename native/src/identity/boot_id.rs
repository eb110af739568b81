//! The boot id, which the kernel makes once and keeps: a file of our own is mounted over it.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::mount::mount_bind;

const KERNEL: &str = "proc/sys/kernel/random/boot_id";
const DIRECTORY: &str = "run/guestd";

/// Gives this boot a new id. Once the file is mounted, it is only written again: mounts that pile
/// up would never be seen, and never go away.
pub fn replace(root: &Path, id: &str) -> io::Result<bool> {
    let (kernel, directory) = (root.join(KERNEL), root.join(DIRECTORY));
    if !kernel.exists() {
        return Ok(false);
    }
    fs::create_dir_all(&directory)?;
    fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
    let source = directory.join("boot_id");
    let groups = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    write(&source, &format!("{}\n", groups.join("-")))?;
    // One file is seen under both names once it is mounted.
    let [seen, own] = [fs::metadata(&kernel)?, fs::metadata(&source)?];
    if (seen.dev(), seen.ino()) != (own.dev(), own.ino()) {
        mount_bind(&source, &kernel)?;
    }
    Ok(true)
}

/// In place: the mount shows this very file. One write of a fixed length is seen whole.
fn write(source: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o444)
        .custom_flags(libc::O_NOFOLLOW)
        .open(source)?;
    file.set_permissions(Permissions::from_mode(0o444))?;
    file.write_all_at(text.as_bytes(), 0)
}
