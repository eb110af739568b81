//! A disk that takes so many bytes a second: ext4 on a loop device that the kernel throttles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Sparse: what an upload that was cut still holds for a while must not fill it.
const IMAGE_BYTES: u64 = 16 << 30;
const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// Throttled, unmounted and removed when it is dropped.
pub struct SlowDisk {
    directory: PathBuf,
    device: Option<String>,
}

impl SlowDisk {
    /// One within a directory; `None` where that is not permitted.
    pub fn mount(within: &Path, bytes_per_second: u64) -> Outcome<Option<Self>> {
        let directory = within.join("slow-disk");
        fs::create_dir_all(directory.join("mounted"))?;
        let mut disk = Self {
            directory,
            device: None,
        };
        let (image, mounted) = (disk.directory.join("image"), disk.path());
        fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
        if !run(Command::new("mkfs.ext4").arg("-qF").arg(&image))
            || !run(Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &mounted]))
        {
            return Ok(None);
        }
        let found = Command::new("findmnt")
            .args(["-no", "MAJ:MIN"])
            .arg(&mounted)
            .output()?;
        let device = String::from_utf8(found.stdout)?.trim().to_owned();
        disk.device = Some(device.clone());
        // Without this gigabytes would go into the page cache before anybody waits for the disk.
        let cached = fs::write(format!("/sys/class/bdi/{device}/max_ratio"), "1");
        let throttled = fs::write(THROTTLE, format!("{device} {bytes_per_second}"));
        Ok((cached.is_ok() && throttled.is_ok()).then_some(disk))
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.join("mounted")
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = fs::write(THROTTLE, format!("{device} 0"));
            let _ = fs::write(format!("/sys/class/bdi/{device}/max_ratio"), "100");
            // Lazily: an upload that was cut may still be in the middle of a write.
            run(Command::new("umount").arg("--lazy").arg(self.path()));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn run(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
