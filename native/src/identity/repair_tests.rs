use super::*;
use crate::file::testing::TempDir;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// A guest's files in a directory of their own.
struct Guest(TempDir);

impl Guest {
    fn with(files: &[(&str, &str)]) -> Self {
        let guest = Self(TempDir::make());
        for (name, text) in files {
            let path = guest.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        guest
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn repair(&self) -> [Outcome; STEPS] {
        repair(self.0.path(), b"secret")
    }
}

const OLD: &str = "0123456789abcdef0123456789abcdef\n";

#[test]
fn nothing_there_is_nothing_to_repair() {
    assert_eq!(Guest::with(&[]).repair(), [Ok(false); STEPS]);
}

#[test]
fn machine_and_bus_get_one_new_id_and_the_stored_seeds_go() {
    let guest = Guest::with(&[
        ("etc/machine-id", OLD),
        ("var/lib/dbus/machine-id", OLD),
        ("var/lib/systemd/random-seed", "seed"),
    ]);
    let [machine, bus, _, seed, _] = guest.repair();
    assert_eq!([machine, bus, seed], [Ok(true); 3]);
    let id = guest.get("etc/machine-id");
    let digits = id.strip_suffix('\n').unwrap();
    assert!(digits.len() == 32 && u128::from_str_radix(digits, 16).is_ok());
    assert!(id != OLD && id == id.to_lowercase(), "{id}");
    assert_eq!(guest.get("var/lib/dbus/machine-id"), id);
    assert!(!guest.path("var/lib/systemd/random-seed").exists());
    let mode = fs::metadata(guest.path("etc/machine-id")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o7777, 0o444);
    let beside = fs::read_dir(guest.path("etc")).unwrap().count() - 1;
    assert_eq!(beside, 0, "nothing is left beside it");
    assert_eq!(guest.repair()[0], Ok(true));
    let again = guest.get("etc/machine-id");
    assert_ne!(again, id, "a second time it is another");
}

#[test]
fn a_bus_that_links_to_the_machines_id_keeps_its_link() {
    let guest = Guest::with(&[("etc/machine-id", OLD), ("var/lib/dbus/other", "")]);
    let link = guest.path("var/lib/dbus/machine-id");
    symlink("../../../etc/machine-id", &link).unwrap();
    assert_eq!(guest.repair()[..2], [Ok(true), Ok(false)]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let id = guest.get("etc/machine-id");
    assert_eq!(guest.get("var/lib/dbus/machine-id"), id);
}

#[test]
fn a_step_that_fails_stops_no_other() {
    let guest = Guest::with(&[
        // A directory can be neither replaced by a file nor removed as one.
        ("etc/machine-id/inside", ""),
        ("var/lib/dbus/machine-id", OLD),
        ("var/lib/systemd/random-seed/inside", ""),
        ("var/lib/misc/random-seed", ""),
        ("var/lib/seedrng/seed.no-credit", ""),
        ("dev/urandom", "a file in the generator's place"),
    ]);
    let [machine, bus, _, seed, generator] = guest.repair();
    assert!(machine.is_err() && seed.is_err(), "{machine:?} {seed:?}");
    assert_eq!((bus, generator), (Ok(true), Err(Errno::NOTTY)));
    // Nor does a seed that cannot be removed keep the others.
    assert!(!guest.path("var/lib/misc/random-seed").exists());
    assert!(!guest.path("var/lib/seedrng/seed.no-credit").exists());
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
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    places.filter(|place| Path::new(place) == path).count()
}

#[test]
fn a_boot_id_is_mounted_over_the_kernels_once_and_then_rewritten() {
    const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
    let guest = Guest::with(&[(BOOT_ID, "kernel\n")]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if !apart() {
                let refused = guest.repair()[2];
                assert!(
                    matches!(refused, Err(Errno::PERM | Errno::ACCESS)),
                    "{refused:?}"
                );
                return;
            }
            let [first, second] = [1, 2].map(|_| (guest.repair()[2], guest.get(BOOT_ID)));
            assert_eq!((first.0, second.0), (Ok(true), Ok(true)));
            assert_eq!(mounts_over(&guest.path(BOOT_ID)), 1);
            assert_ne!(first.1, second.1);
            for id in [&first.1, &second.1] {
                let groups: Vec<usize> = id.trim_end().split('-').map(str::len).collect();
                assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
                assert_eq!(id.as_bytes()[14], b'4', "{id}");
            }
        });
    });
    assert_eq!(guest.get(BOOT_ID), "kernel\n", "beneath the mount");
}

#[test]
fn outcomes_are_packed_a_byte_each() {
    let (perm, rofs) = (Err(Errno::PERM), Err(Errno::ROFS));
    let packed = pack(&[Ok(true), Ok(false), perm, Ok(true), rofs]);
    assert_eq!(packed.to_le_bytes(), [0, 255, 1, 0, 30, 0, 0, 0]);
}
