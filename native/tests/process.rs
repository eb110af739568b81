//! Real commands under the core: exits, output, stdin, groups.

mod support;

use std::time::{Duration, Instant};

use guestd::process::log::Next;
use guestd::process::reap::Exit;
use guestd::process::request::Request;
use guestd::process::ring::Stream;
use guestd::reactor::mailbox::Command;
use support::{Host, QUICK, captured, eventually, shell, state_of};

#[test]
fn a_command_ends_with_its_code_and_all_its_output() {
    let host = Host::open(QUICK);
    let exec = host.sh("echo out; echo err >&2; exit 7");
    host.published(&exec);
    assert_eq!(exec.state().exit, Some(Exit::Code(7)));
    assert!(!exec.state().writers_may_be_alive);
    assert_eq!(captured(&exec, Stream::Stdout), "out\n");
    assert_eq!(captured(&exec, Stream::Stderr), "err\n");
    assert_eq!(exec.state().log.total(), 8);
}

#[test]
fn a_signal_is_not_an_exit_code() {
    let host = Host::open(QUICK);
    let exec = host.sh("kill -9 $$");
    host.published(&exec);
    assert_eq!(exec.state().exit, Some(Exit::Signal(9)));
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
fn the_leader_stays_a_zombie_until_its_group_is_empty() {
    let host = Host::open(QUICK);
    let fifo = std::env::temp_dir().join(format!("guestd-fifo-{}", std::process::id()));
    let script = format!(
        "mkfifo {0}; (read line < {0}) >/dev/null 2>&1 & echo $!",
        fifo.display()
    );
    let exec = host.sh(&script);
    host.published(&exec);
    eventually("the leader is a zombie", || state_of(exec.pid) == Some('Z'));
    let member: i32 = captured(&exec, Stream::Stdout).trim().parse().unwrap();
    assert!(state_of(member).is_some());
    // Settling passes come and go; the number must stay ours as long as the member lives.
    for _ in 0..3 {
        let token = host.token();
        host.core.list_members(token);
        let (_, size) = host.operation(token);
        assert_eq!(size, 8);
        host.core.take_table(token).unwrap();
        assert_eq!(state_of(exec.pid), Some('Z'));
        assert!(!exec.state().group_gone);
    }
    std::fs::write(&fifo, "go\n").unwrap();
    eventually("the leader is reaped", || state_of(exec.pid).is_none());
    assert!(exec.state().group_gone);
    std::fs::remove_file(&fifo).unwrap();
}

#[test]
fn kill_ends_a_member_that_ignores_sigterm_after_the_leader_is_gone() {
    let host = Host::open(QUICK);
    let exec = host.sh("(trap '' TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 60; done) & wait %1 & exit 0");
    host.says(&exec, "ready");
    host.published(&exec);
    let token = host.token();
    let asked = Instant::now();
    host.core.send(Command::Kill {
        exec: exec.id,
        token,
    });
    assert_eq!(host.operation(token), (0, 1));
    assert!(
        asked.elapsed() >= Duration::from_millis(300),
        "SIGKILL came before the grace"
    );
    eventually("the group is gone", || exec.state().group_gone);
    let token = host.token();
    host.core.send(Command::Kill {
        exec: exec.id,
        token,
    });
    assert_eq!(host.operation(token), (0, 0));
}

#[test]
fn kill_answers_as_soon_as_nobody_is_left() {
    let mut settings = QUICK;
    settings.grace_secs = 60.0;
    let host = Host::open(settings);
    let exec = host.sh("sleep 1000 & echo ready; wait");
    host.says(&exec, "ready");
    let tokens = [host.token(), host.token()];
    for token in tokens {
        host.core.send(Command::Kill {
            exec: exec.id,
            token,
        });
    }
    assert_eq!(tokens.map(|token| host.operation(token)), [(0, 1); 2]);
    host.published(&exec);
    assert_eq!(exec.state().exit, Some(Exit::Signal(libc::SIGTERM)));
}

#[test]
fn a_timeout_ends_the_group_and_an_absurd_one_never_does() {
    let host = Host::open(QUICK);
    let short = host.start(Request {
        timeout_secs: Some(0.05),
        ..shell("sleep 1000")
    });
    let long = host.start(Request {
        timeout_secs: Some(1e308),
        ..shell("exit 3")
    });
    host.published(&short);
    assert_eq!(short.state().exit, Some(Exit::Signal(libc::SIGTERM)));
    host.published(&long);
    assert_eq!(long.state().exit, Some(Exit::Code(3)));
}

#[test]
fn reap_ends_what_the_leader_left() {
    let host = Host::open(QUICK);
    let exec = host.start(Request {
        reap: true,
        ..shell("sleep 1000 & exit 0")
    });
    host.published(&exec);
    assert!(!exec.state().writers_may_be_alive);
    eventually("the group is gone", || exec.state().group_gone);
}

#[test]
fn a_writer_left_behind_is_bounded_by_the_linger_and_does_not_die_of_sigpipe() {
    let host = Host::open(QUICK);
    let mark = std::env::temp_dir().join(format!("guestd-mark-{}", std::process::id()));
    let fifo = mark.with_extension("fifo");
    let script = format!(
        "mkfifo {0}; (read l < {0}; echo late; echo late; echo alive > {1}) & echo early",
        fifo.display(),
        mark.display()
    );
    let exec = host.sh(&script);
    host.published(&exec);
    assert!(exec.state().writers_may_be_alive);
    std::fs::write(&fifo, "go\n").unwrap();
    eventually("it wrote on", || mark.exists());
    assert_eq!(captured(&exec, Stream::Stdout), "early\n");
    assert_eq!(exec.state().log.total(), 6);
    std::fs::remove_file(&fifo).unwrap();
    std::fs::remove_file(&mark).unwrap();
}

#[test]
fn stdin_is_written_in_order_late_writes_time_out_and_the_pipe_stays_open() {
    let host = Host::open(QUICK);
    let exec = host.start(Request {
        stdin: true,
        ..shell("read a; head -c 200000 | wc -c; cat")
    });
    let write = |data: &[u8], eof| {
        let token = host.token();
        host.core.send(Command::Stdin {
            exec: exec.id,
            data: data.to_vec(),
            eof,
            token,
        });
        token
    };
    assert_eq!(host.operation(write(b"", false)), (0, 0));
    assert_eq!(host.operation(write(b"line\n", false)), (0, 5));
    assert_eq!(host.operation(write(&[b'x'; 200_000], false)), (0, 200_000));
    assert_eq!(host.operation(write(b"rest", true)), (0, 4));
    assert_eq!(host.operation(write(b"more", false)), (libc::EPIPE, 0));
    host.published(&exec);
    assert_eq!(captured(&exec, Stream::Stdout), "200000\nrest");
}

#[test]
fn a_child_that_does_not_read_costs_the_writer_its_deadline_and_no_more() {
    let host = Host::open(QUICK);
    let fifo = std::env::temp_dir().join(format!("guestd-go-{}", std::process::id()));
    let script = format!(
        "mkfifo {0}; echo ready; read l < {0}; cat | wc -c",
        fifo.display()
    );
    let exec = host.start(Request {
        stdin: true,
        ..shell(&script)
    });
    host.says(&exec, "ready");
    let write = |data: Vec<u8>, eof| {
        let token = host.token();
        host.core.send(Command::Stdin {
            exec: exec.id,
            data,
            eof,
            token,
        });
        token
    };
    let (first, queued) = (
        write(vec![b'x'; 1 << 20], false),
        write(b"never begun".to_vec(), true),
    );
    let (status, written) = host.operation(first);
    assert_eq!(status, libc::ETIMEDOUT);
    assert!(written > 0 && written < 1 << 20);
    assert_eq!(host.operation(queued), (libc::ETIMEDOUT, 0));
    std::fs::write(&fifo, "go\n").unwrap();
    assert_eq!(host.operation(write(b"!".to_vec(), true)), (0, 1));
    host.published(&exec);
    assert_eq!(
        captured(&exec, Stream::Stdout),
        format!("ready\n{}\n", written + 1)
    );
    std::fs::remove_file(&fifo).unwrap();
}

#[test]
fn a_child_that_stopped_reading_closes_stdin_for_good() {
    let host = Host::open(QUICK);
    let exec = host.start(Request {
        stdin: true,
        ..shell("exec 0<&-; echo closed; sleep 1000")
    });
    host.says(&exec, "closed");
    let token = host.token();
    host.core.send(Command::Stdin {
        exec: exec.id,
        data: b"x".to_vec(),
        eof: false,
        token,
    });
    assert_eq!(host.operation(token), (libc::EPIPE, 0));
}

#[test]
fn a_reader_that_takes_nothing_holds_the_command_up_for_a_moment_only() {
    let host = Host::open(QUICK);
    let exec = host.sh("head -c 67108864 /dev/zero");
    let stuck = host.core.attach(&exec, 0);
    let began = Instant::now();
    host.published(&exec);
    // 100 ms a hold and given up after the first one that brought nothing; the rest is copying.
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "took {:?}",
        began.elapsed()
    );
    assert_eq!(exec.state().log.total(), 64 << 20);
    let next = exec.state().log.next(stuck, &mut [0; 64]);
    assert_eq!(next, Next::Gap(0, 56 << 20));
    host.core.detach(stuck);
}

#[test]
fn a_reader_that_keeps_up_misses_nothing_of_a_fast_writer() {
    let host = Host::open(QUICK);
    let exec = host.sh("head -c 67108864 /dev/zero");
    let reader = host.core.attach(&exec, 0);
    let (mut cursor, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let next = exec.state().log.next(reader, &mut buffer);
        let room = {
            let state = exec.state();
            state.log.held && state.log.has_room(1 << 20)
        };
        if room {
            host.core.send(Command::Resume { exec: exec.id });
        }
        match next {
            Next::Output(_, offset, count) => {
                assert_eq!(offset, cursor);
                cursor += count as u64;
            }
            Next::Nothing => host.readable(reader),
            Next::End => break,
            Next::Gap(from, to) => panic!("a gap from {from} to {to}"),
        }
    }
    assert_eq!(cursor, 64 << 20);
}

#[test]
fn ending_all_groups_answers_once_each_is_empty_or_was_killed() {
    let host = Host::open(QUICK);
    let meek = host.sh("echo ready; sleep 1000");
    let stubborn = host.sh("trap '' TERM; echo ready; while :; do sleep 60; done");
    let gone = host.sh("exit 0");
    host.says(&meek, "ready");
    host.says(&stubborn, "ready");
    host.published(&gone);
    let token = host.token();
    host.core.send(Command::EndAll {
        grace_ns: 100_000_000,
        token,
    });
    assert_eq!(host.operation(token), (0, 0));
    for exec in [&meek, &stubborn] {
        host.published(exec);
    }
    assert_eq!(meek.state().exit, Some(Exit::Signal(libc::SIGTERM)));
    assert_eq!(stubborn.state().exit, Some(Exit::Signal(libc::SIGKILL)));
}

#[test]
fn a_collected_exec_is_signalled_no_more_and_its_writer_goes_on() {
    let host = Host::open(QUICK);
    let exec = host.sh("(echo ready; exec sleep 1000) & exit 0");
    host.says(&exec, "ready");
    host.published(&exec);
    host.core.table.remove(exec.id).unwrap();
    host.core.send(Command::Collect { exec: exec.id });
    eventually("the leader is reaped", || state_of(exec.pid).is_none());
    let token = host.token();
    host.core.send(Command::Kill {
        exec: exec.id,
        token,
    });
    assert_eq!(host.operation(token), (0, 0));
    let members = guestd::procfs::live_processes().unwrap();
    let left: Vec<_> = members
        .iter()
        .filter(|member| member.pgid == exec.pid)
        .collect();
    assert_eq!(left.len(), 1, "the background writer was ended");
    let pid = rustix::process::Pid::from_raw(left[0].pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_start_that_hangs_in_its_working_directory_holds_up_no_other() {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let Ok(fuse) = rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()) else {
        println!("skipped: no /dev/fuse here");
        return;
    };
    let directory = std::env::temp_dir().join(format!("guestd-hung-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // A file system whose server never answers: whoever looks into it hangs.
    let number = std::os::fd::AsRawFd::as_raw_fd(&fuse);
    let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
    let data = std::ffi::CString::new(data).unwrap();
    let flags = rustix::mount::MountFlags::NODEV;
    if rustix::mount::mount("hung", &directory, "fuse", flags, Some(data.as_c_str())).is_err() {
        println!("skipped: mounting needs root");
        return;
    }
    let inside = std::ffi::CString::new(format!("{}/x", directory.display())).unwrap();
    let host = Host::open(QUICK);
    let hanging: Vec<u32> = (0..3)
        .map(|_| {
            let token = host.token();
            host.core.start(
                Request {
                    cwd: Some(inside.clone()),
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
        assert_eq!(exec.state().exit, Some(Exit::Code(code)));
    }
    // Its server gone, the file system answers with an error, and so do the starts.
    drop(fuse);
    for token in hanging {
        assert_eq!(host.operation(token), (libc::ENOTCONN, 8));
    }
    rustix::mount::unmount(&directory, rustix::mount::UnmountFlags::DETACH).unwrap();
    std::fs::remove_dir(&directory).unwrap();
}
