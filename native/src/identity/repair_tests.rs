use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A guest's files in a directory of their own.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("guestd-identity-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn put(&self, name: &str, text: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn repair(&self) -> [Outcome; STEPS] {
        repair(&self.0, b"secret")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_id(text: &str) -> bool {
    let digits = text.strip_suffix('\n').unwrap_or_default();
    digits.len() == 32
        && digits
            .bytes()
            .all(|byte| b"0123456789abcdef".contains(&byte))
}

const OLD: &str = "0123456789abcdef0123456789abcdef\n";

#[test]
fn nothing_there_is_nothing_to_repair() {
    assert_eq!(Root::new().repair(), [Outcome::NotApplicable; STEPS]);
}

#[test]
fn machine_and_bus_get_one_new_id_and_the_stored_seeds_go() {
    let root = Root::new();
    root.put("etc/machine-id", OLD)
        .put("var/lib/dbus/machine-id", OLD)
        .put("var/lib/systemd/random-seed", "seed");
    let outcomes = root.repair();
    assert_eq!(outcomes[0], Outcome::Repaired);
    assert_eq!(outcomes[1], Outcome::Repaired);
    assert_eq!(outcomes[3], Outcome::Repaired);
    let id = root.get("etc/machine-id");
    assert!(is_id(&id) && id != OLD, "{id}");
    assert_eq!(root.get("var/lib/dbus/machine-id"), id);
    assert!(!root.0.join("var/lib/systemd/random-seed").exists());
    let mode = fs::metadata(root.0.join("etc/machine-id"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o444);
    assert_eq!(
        fs::read_dir(root.0.join("etc")).unwrap().count(),
        1,
        "nothing is left beside it"
    );
    root.repair();
    assert_ne!(
        root.get("etc/machine-id"),
        id,
        "a second time it is another"
    );
}

#[test]
fn a_bus_that_links_to_the_machines_id_keeps_its_link() {
    let root = Root::new();
    root.put("etc/machine-id", OLD)
        .put("var/lib/dbus/other", "");
    let link = root.0.join("var/lib/dbus/machine-id");
    symlink("../../../etc/machine-id", &link).unwrap();
    let outcomes = root.repair();
    assert_eq!(
        (outcomes[0], outcomes[1]),
        (Outcome::Repaired, Outcome::NotApplicable)
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(&link).unwrap(),
        root.get("etc/machine-id")
    );
}

#[test]
fn a_step_that_fails_stops_no_other() {
    let root = Root::new();
    // A directory can be neither replaced by a file nor removed as one.
    root.put("etc/machine-id/inside", "")
        .put("var/lib/dbus/machine-id", OLD)
        .put("var/lib/systemd/random-seed/inside", "")
        .put("var/lib/misc/random-seed", "")
        .put("var/lib/seedrng/seed.no-credit", "");
    let outcomes = root.repair();
    assert!(
        matches!(outcomes[0], Outcome::Failed(_)),
        "{:?}",
        outcomes[0]
    );
    assert_eq!(outcomes[1], Outcome::Repaired);
    assert!(
        matches!(outcomes[3], Outcome::Failed(_)),
        "{:?}",
        outcomes[3]
    );
    // Nor does a seed that cannot be removed keep the others.
    assert!(!root.0.join("var/lib/misc/random-seed").exists());
    assert!(!root.0.join("var/lib/seedrng/seed.no-credit").exists());
}

#[test]
fn a_file_in_the_generators_place_is_a_failure() {
    let root = Root::new();
    root.put("dev/urandom", "");
    assert_eq!(root.repair()[4], Outcome::Failed(Errno::NOTTY));
}

/// In a mount namespace of this thread's own; without the right to make one nothing can be tried.
fn apart() -> bool {
    use rustix::mount::{MountPropagationFlags, mount_change};
    #[allow(unsafe_code)]
    // SAFETY: a new mount namespace takes away no memory and no descriptor of this process, and only
    // this thread sees other mounts from now on.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    unshared.is_ok() && mount_change("/", private).is_ok()
}

fn mounts_over(path: &Path) -> usize {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let name = path.to_str().unwrap();
    table
        .lines()
        .filter(|line| line.split(' ').nth(4) == Some(name))
        .count()
}

#[test]
fn a_boot_id_is_mounted_over_the_kernels_once_and_then_rewritten() {
    let root = Root::new();
    root.put("proc/sys/kernel/random/boot_id", "kernel\n");
    let seen = root.0.join("proc/sys/kernel/random/boot_id");
    let (first, second, count, right) = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let right = apart();
            let outcome = root.repair()[2];
            let first = (outcome, fs::read_to_string(&seen).unwrap());
            let outcome = root.repair()[2];
            let second = (outcome, fs::read_to_string(&seen).unwrap());
            let count = mounts_over(&seen);
            let _ = rustix::mount::unmount(&seen, rustix::mount::UnmountFlags::empty());
            (first, second, count, right)
        });
        inside.join().unwrap()
    });
    if !right {
        assert!(
            matches!(first.0, Outcome::Failed(Errno::PERM | Errno::ACCESS)),
            "{:?}",
            first.0
        );
        return;
    }
    assert_eq!(
        (first.0, second.0, count),
        (Outcome::Repaired, Outcome::Repaired, 1)
    );
    assert_ne!(first.1, second.1);
    for id in [&first.1, &second.1] {
        let groups: Vec<usize> = id.trim_end().split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(id.as_bytes()[14], b'4', "{id}");
    }
    assert_eq!(
        root.get("proc/sys/kernel/random/boot_id"),
        "kernel\n",
        "beneath the mount"
    );
}

#[test]
fn outcomes_are_packed_a_byte_each() {
    let outcomes = [
        Outcome::Repaired,
        Outcome::NotApplicable,
        Outcome::Failed(Errno::PERM),
        Outcome::Repaired,
        Outcome::Failed(Errno::ROFS),
    ];
    assert_eq!(pack(&outcomes).to_le_bytes(), [0, 255, 1, 0, 30, 0, 0, 0]);
}
