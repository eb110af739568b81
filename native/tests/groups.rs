//! Process groups of real commands: killed, timed out, reaped, collected.

mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use guestd::abi::Lent;
use guestd::process::context::Command;
use guestd::process::exec::Exit;
use guestd::process::exec::Request;
use guestd::process::log::Stream;
use support::{Host, PATIENT, QUICK, captured, eventually, shell, state_of};

/// The live members of all groups: execs and pids, of which there are two at most.
#[allow(unsafe_code)]
fn members(host: &Host) -> Vec<(u32, u32)> {
    let (mut list, token) = ([0; 16], host.token());
    // SAFETY: the operation is waited for before the list is used or ends.
    let lent = unsafe { Lent::new(list.as_mut_ptr(), 16) };
    host.core.list_members(lent, token);
    let (_, size) = host.operation(token);
    let word = |at: usize| u32::from_le_bytes(list[at..at + 4].try_into().unwrap());
    let starts = (0..size as usize).step_by(8);
    starts.map(|at| (word(at), word(at + 4))).collect()
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
        assert_eq!(members(&host), [(exec.id, member as u32)]);
        assert_eq!(state_of(exec.pid), Some('Z'));
        assert!(!exec.facts().group_gone);
    }
    std::fs::write(&fifo, "go\n").unwrap();
    eventually("the leader is reaped", || state_of(exec.pid).is_none());
    assert!(exec.facts().group_gone);
    std::fs::remove_file(&fifo).unwrap();
}

#[test]
fn kill_ends_a_member_that_ignores_sigterm_after_the_leader_is_gone() {
    let host = Host::open(QUICK);
    let exec = host.sh("(trap '' TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 60; done) & wait %1 & exit 0");
    host.says(&exec, "ready");
    host.published(&exec);
    let asked = Instant::now();
    assert_eq!(host.kill(&exec), (0, 1));
    assert!(
        asked.elapsed() >= Duration::from_millis(300),
        "SIGKILL came before the grace"
    );
    eventually("the group is gone", || exec.facts().group_gone);
    assert_eq!(host.kill(&exec), (0, 0));
}

#[test]
fn kill_answers_as_soon_as_nobody_is_left() {
    let host = Host::open(PATIENT);
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
    assert_eq!(exec.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
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
    assert_eq!(short.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
    host.published(&long);
    assert_eq!(long.facts().exit, Some(Exit::Code(3)));
}

#[test]
fn reap_ends_what_the_leader_left() {
    let host = Host::open(QUICK);
    let exec = host.start(Request {
        reap: true,
        ..shell("sleep 1000 & exit 0")
    });
    host.published(&exec);
    assert!(!exec.facts().writers_may_be_alive);
    eventually("the group is gone", || exec.facts().group_gone);
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
    assert_eq!(meek.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
    assert_eq!(stubborn.facts().exit, Some(Exit::Signal(libc::SIGKILL)));
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
    assert_eq!(host.kill(&exec), (0, 0));
    let members = guestd::process::proc_scan::processes().unwrap();
    let left: Vec<_> = members
        .iter()
        .filter(|member| member.live && member.pgid == exec.pid)
        .collect();
    assert_eq!(left.len(), 1, "the background writer was ended");
    let pid = rustix::process::Pid::from_raw(left[0].pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_member_that_leaves_the_group_keeps_no_kill_waiting() {
    let host = Host::open(PATIENT);
    // Perl, because a shell cannot leave its group: setsid(1) forks where it leads one.
    let leaver = "use POSIX; $SIG{TERM} = sub { POSIX::setsid() }; $| = 1; print \"ready\\n\"; \
        sleep 1000 while 1";
    if std::process::Command::new("perl")
        .args(["-e", "1"])
        .status()
        .is_err()
    {
        println!("skipped: no perl here");
        return;
    }
    let exec = host.sh(&format!("perl -e '{leaver}' & exit 0"));
    host.says(&exec, "ready");
    host.published(&exec);
    let members = guestd::process::proc_scan::processes().unwrap();
    let left = members
        .iter()
        .find(|member| member.live && member.pgid == exec.pid)
        .unwrap();
    let asked = Instant::now();
    assert_eq!(host.kill(&exec), (0, 1));
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "the grace ran out"
    );
    let pid = rustix::process::Pid::from_raw(left.pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn what_is_started_after_all_groups_were_ended_is_killed_at_once() {
    let host = Host::open(QUICK);
    let token = host.token();
    host.core.send(Command::EndAll {
        grace_ns: 100_000_000,
        token,
    });
    assert_eq!(host.operation(token), (0, 0));
    let late = host.sh("sleep 1000");
    host.published(&late);
    assert_eq!(late.facts().exit, Some(Exit::Signal(libc::SIGKILL)));
}

#[test]
fn a_stopped_member_hears_of_its_end() {
    let host = Host::open(PATIENT);
    let exec = host.sh("echo ready; kill -STOP $$");
    host.says(&exec, "ready");
    eventually("it is stopped", || state_of(exec.pid) == Some('T'));
    assert_eq!(host.kill(&exec), (0, 1));
    host.published(&exec);
    assert_eq!(exec.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
}

/// A file system of FUSE whose server takes requests and answers none but the first: who looks
/// into it cannot be killed until the server is gone.
struct Bog {
    server: Option<std::fs::File>,
    directory: std::path::PathBuf,
}

impl Bog {
    /// `None` where there is no FUSE or it may not be mounted.
    fn spread() -> Option<Self> {
        let mut server = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok()?;
        let directory = std::env::temp_dir().join(format!("guestd-bog-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&server);
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
        let data = std::ffi::CString::new(data).unwrap();
        let flags = rustix::mount::MountFlags::NODEV;
        rustix::mount::mount("bog", &directory, "fuse", flags, Some(data.as_c_str())).ok()?;
        let mut request = vec![0; 64 << 10];
        assert!(server.read(&mut request).unwrap() > 0);
        // fuse_out_header: length, error, the request's number; fuse_init_out: version 7.31.
        let mut answer = vec![0; 16 + 64];
        answer[0] = 80;
        answer[8..16].copy_from_slice(&request[8..16]);
        (answer[16], answer[20]) = (7, 31);
        server.write_all(&answer).unwrap();
        let server = Some(server);
        Some(Self { server, directory })
    }

    /// Waits until somebody looks into it.
    fn catch(&mut self) {
        let server = self.server.as_mut().unwrap();
        assert!(server.read(&mut vec![0; 64 << 10]).unwrap() > 0);
    }
}

impl Drop for Bog {
    fn drop(&mut self) {
        self.server = None;
        let detach = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(&self.directory, detach).unwrap();
        std::fs::remove_dir(&self.directory).unwrap();
    }
}

#[test]
fn a_kill_of_what_cannot_be_killed_answers_once_sigkill_was_sent() {
    let Some(mut bog) = Bog::spread() else {
        println!("skipped: no FUSE here, or not root");
        return;
    };
    let host = Host::open(QUICK);
    let exec = host.sh(&format!(
        "trap '' TERM; exec cat {}/x",
        bog.directory.display()
    ));
    bog.catch();
    let token = host.token();
    let asked = Instant::now();
    host.core.send(Command::Kill {
        exec: exec.id,
        token,
    });
    // Lets it go in the end, so that a kill which waits for that is seen to have waited.
    let (answered, wait) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let _ = wait.recv_timeout(Duration::from_secs(10));
        drop(bog);
    });
    assert_eq!(host.operation(token), (0, 1));
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(300),
        "before the grace: {took:?}"
    );
    assert!(
        took < Duration::from_secs(5),
        "waited for its end: {took:?}"
    );
    assert!(exec.facts().exit.is_none(), "it lives on");
    drop(answered);
    server.join().unwrap();
    host.published(&exec);
    assert_eq!(exec.facts().exit, Some(Exit::Signal(libc::SIGKILL)));
}
