//! How real commands start and end under the core.

mod support;

use guestd::process::exec::Exit;
use guestd::process::exec::Request;
use guestd::process::log::Stream;
use support::{Host, Hung, QUICK, captured, shell};

#[test]
fn a_command_ends_with_its_code_and_all_its_output() {
    let host = Host::open(QUICK);
    let exec = host.sh("echo out; echo err >&2; exit 7");
    host.published(&exec);
    assert_eq!(exec.facts().exit, Some(Exit::Code(7)));
    assert!(!exec.facts().writers_may_be_alive);
    assert_eq!(captured(&exec, Stream::Stdout), "out\n");
    assert_eq!(captured(&exec, Stream::Stderr), "err\n");
    assert_eq!(exec.facts().log.total(), 8);
}

#[test]
fn a_signal_is_not_an_exit_code() {
    let host = Host::open(QUICK);
    let exec = host.sh("kill -9 $$");
    host.published(&exec);
    assert_eq!(exec.facts().exit, Some(Exit::Signal(9)));
}

#[test]
fn a_start_that_fails_names_its_step_and_leaves_nothing() {
    let host = Host::open(QUICK);
    let program = |name: &str| Request {
        argv: vec![std::ffi::CString::new(name).unwrap()],
        ..shell("")
    };
    assert_eq!(
        host.try_start(program("no-such-program")),
        Err((libc::ENOENT, 9))
    );
    assert_eq!(
        host.try_start(program("/etc/passwd")),
        Err((libc::EACCES, 9))
    );
    assert_eq!(host.try_start(program("")), Err((libc::ENOENT, 9)));
    let nowhere = Request {
        cwd: Some(c"/no/such".into()),
        ..shell("")
    };
    assert_eq!(host.try_start(nowhere), Err((libc::ENOENT, 8)));
    let unchanged = Request {
        uid: Some(u32::MAX),
        ..shell("")
    };
    assert_eq!(host.try_start(unchanged), Err((libc::EINVAL, 7)));
    let long = Request {
        argv: vec![std::ffi::CString::new("x".repeat(1 << 20)).unwrap(); 4],
        ..shell("")
    };
    let (errno, step) = host.try_start(long).unwrap_err();
    assert_eq!(step, 9);
    assert!(
        [libc::E2BIG, libc::ENAMETOOLONG, libc::ENOENT].contains(&errno),
        "errno {errno}"
    );
    assert!(host.core.table.all().is_empty());
}

#[test]
fn a_text_file_is_no_program_and_no_shell_is_tried() {
    let host = Host::open(QUICK);
    let path = std::env::temp_dir().join(format!("guestd-noexec-{}", std::process::id()));
    std::fs::write(&path, "echo hello\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    let argv = vec![std::ffi::CString::new(path.to_str().unwrap()).unwrap()];
    assert_eq!(
        host.try_start(Request { argv, ..shell("") }),
        Err((libc::ENOEXEC, 9))
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_child_gets_default_signals_no_mask_its_own_session_and_three_descriptors() {
    let host = Host::open(QUICK);
    let exec = host.sh("grep -E 'Sig(Blk|Ign|Cgt)|NSsid' /proc/self/status; ls /proc/$$/fd; exit");
    host.published(&exec);
    let said = captured(&exec, Stream::Stdout);
    for set in ["SigBlk", "SigIgn"] {
        assert!(
            said.contains(&format!("{set}:\t0000000000000000")),
            "{said}"
        );
    }
    assert!(said.contains(&format!("NSsid:\t{}", exec.pid)), "{said}");
    let fds: Vec<&str> = said
        .lines()
        .filter(|line| line.parse::<u32>().is_ok())
        .collect();
    assert_eq!(fds, ["0", "1", "2"], "{said}");
}

#[test]
fn a_start_that_hangs_in_its_working_directory_holds_up_no_other() {
    let Some(mut hung) = Hung::mount() else {
        println!("skipped: a directory that hangs needs /dev/fuse and root");
        return;
    };
    let host = Host::open(QUICK);
    let hanging: Vec<u32> = (0..3)
        .map(|_| {
            let token = host.token();
            host.core.start(
                Request {
                    cwd: Some(hung.inside()),
                    ..shell("exit 0")
                },
                token,
            );
            token
        })
        .collect();
    for code in 1..4 {
        let exec = host.sh(&format!("exit {code}"));
        host.published(&exec);
        assert_eq!(exec.facts().exit, Some(Exit::Code(code)));
    }
    // Its server gone, the file system answers with an error, and so do the starts.
    hung.give_up();
    for token in hanging {
        assert_eq!(host.operation(token), (libc::ENOTCONN, 8));
    }
}

#[test]
fn a_child_is_no_safer_from_the_oom_killer_than_the_daemon_was() {
    let score = |path| std::fs::read_to_string(path).unwrap().trim().to_string();
    if std::fs::write("/proc/self/oom_score_adj", "-1000").is_err() {
        println!("skipped: setting it needs CAP_SYS_RESOURCE");
        return;
    }
    std::fs::write("/proc/self/oom_score_adj", "0").unwrap();
    let host = Host::open(QUICK);
    assert_eq!(score("/proc/self/oom_score_adj"), "-1000");
    let exec = host.start(Request {
        uid: Some(1000),
        ..shell("cat /proc/self/oom_score_adj")
    });
    host.published(&exec);
    assert_eq!(captured(&exec, Stream::Stdout), "0\n");
    assert_eq!(score("/proc/self/oom_score_adj"), "-1000");
}
