//! The threads that start children: more while some hang, and no more than needed afterwards.
//! Alone in its process, for it counts the process's threads.

mod support;

use std::fs;

use guestd::process::request::Request;
use support::{Host, Hung, QUICK, eventually, shell, state_of};

fn spawners() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name == "guestd-spawner\n").count()
}

#[test]
fn threads_beyond_the_first_end_when_they_are_idle_but_not_with_children() {
    let Some(mut hung) = Hung::mount() else {
        println!("skipped: a directory that hangs needs /dev/fuse and root");
        return;
    };
    let host = Host::open(QUICK);
    eventually("the first threads", || spawners() == 3);
    let hanging = [(); 4].map(|()| {
        let token = host.token();
        let request = Request {
            cwd: Some(hung.inside()),
            ..shell("exit 0")
        };
        host.core.start(request, token);
        token
    });
    // By a thread that was added, for all others hang.
    let child = host.sh("exec sleep 60");
    assert!(spawners() > 5, "{}", spawners());
    hung.give_up();
    for token in hanging {
        assert_eq!(host.operation(token), (libc::ENOTCONN, 8));
    }
    eventually("two that take orders, one that stands by", || {
        spawners() == 3
    });
    assert_eq!(state_of(child.pid), Some('S'));
    // Its leader is still reaped by nobody but the core.
    let token = host.token();
    host.core.send(guestd::reactor::mailbox::Command::Kill {
        exec: child.id,
        token,
    });
    assert_eq!(host.operation(token), (0, 1));
    host.published(&child);
    let exit = child.state().exit;
    assert_eq!(exit, Some(guestd::process::reap::Exit::Signal(15)));
}
