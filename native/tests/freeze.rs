//! Commands and the wall clock over a freeze. One test binary of its own: the clock is the process's.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guestd::clock::WALL_AHEAD_NS;
use guestd::process::context::Command;
use guestd::process::exec::Exit;
use support::{Host, QUICK, shell};

const HOUR_NS: i64 = 3_600_000_000_000;

fn set_clock(ahead_ns: i64) {
    WALL_AHEAD_NS.store(ahead_ns, Ordering::Relaxed);
}

/// A command with a budget of a minute, which it would need.
fn with_budget(host: &Host) -> std::sync::Arc<guestd::process::exec::Exec> {
    host.start(guestd::process::exec::Request {
        timeout_secs: Some(60.0),
        ..shell("exec sleep 1000")
    })
}

/// Returns once the supervisor has done with all that was asked of it before.
fn settled(host: &Host) {
    host.published(&host.sh("exit 0"));
}

/// One after the other, because they set one clock.
#[test]
fn a_budget_that_passed_while_frozen_ends_its_command_at_once_and_nothing_else_does() {
    a_jump_at_another_time_ends_nothing();
    a_jump_over_a_freeze_ends_what_it_overtook();
    a_jump_after_the_resume_hook_counts_too();
    a_linger_survives_jumps_in_both_directions();
}

fn a_jump_at_another_time_ends_nothing() {
    let host = Host::open(QUICK);
    let exec = with_budget(&host);
    set_clock(HOUR_NS);
    host.core.send(Command::Resumed);
    settled(&host);
    assert!(exec.facts().exit.is_none());
    set_clock(0);
}

fn a_jump_over_a_freeze_ends_what_it_overtook() {
    let host = Host::open(QUICK);
    let exec = with_budget(&host);
    let long = host.start(guestd::process::exec::Request {
        timeout_secs: Some(7200.0),
        ..shell("exec sleep 1000")
    });
    host.core.send(Command::Suspended);
    settled(&host);
    set_clock(HOUR_NS);
    // One that starts after the jump has all of its budget, though nobody has seen the jump yet.
    let young = host.start(guestd::process::exec::Request {
        timeout_secs: Some(60.0),
        stdin: true,
        ..shell("read line; exit 7")
    });
    let resumed = Instant::now();
    host.core.send(Command::Resumed);
    host.published(&exec);
    assert!(resumed.elapsed() < Duration::from_secs(5));
    assert_eq!(exec.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
    assert!(long.facts().exit.is_none(), "its budget is two hours");
    host.write(&young, b"go on\n", false);
    host.published(&young);
    assert_eq!(young.facts().exit, Some(Exit::Code(7)));
    set_clock(0);
}

fn a_jump_after_the_resume_hook_counts_too() {
    let host = Host::open(QUICK);
    let exec = with_budget(&host);
    host.core.send(Command::Suspended);
    host.core.send(Command::Resumed);
    settled(&host);
    assert!(exec.facts().exit.is_none());
    set_clock(HOUR_NS);
    host.published(&exec);
    assert_eq!(exec.facts().exit, Some(Exit::Signal(libc::SIGTERM)));
    set_clock(0);
}

fn a_linger_survives_jumps_in_both_directions() {
    for ahead in [HOUR_NS, -HOUR_NS] {
        let host = Host::open(QUICK);
        host.core.send(Command::Suspended);
        let exec = host.sh("sleep 1000 & echo begun");
        host.says(&exec, "begun");
        let exited = Instant::now();
        set_clock(ahead);
        host.core.send(Command::Resumed);
        host.published(&exec);
        // 0.3 s in these tests; neither cut off by the jump nor put off by it.
        let lingered = exited.elapsed();
        assert!(lingered > Duration::from_millis(200), "{lingered:?}");
        assert!(lingered < Duration::from_secs(10), "{lingered:?}");
        assert!(exec.facts().writers_may_be_alive);
        set_clock(0);
    }
}
