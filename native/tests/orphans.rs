//! Orphans, as a child subreaper and as the init of a PID namespace. Without the test harness,
//! because orphans become children of the main thread and the harness runs tests on others.

mod support;

use std::process::Command;

use guestd::process::log::Stream;
use guestd::process::supervisor::reap_orphans;
use support::{Host, QUICK, captured, eventually, state_of};

const AS_INIT: &str = "GUESTD_TEST_AS_INIT";

type Case = (&'static str, fn());

const CASES: [Case; 3] = [
    (
        "orphans_are_reaped_on_the_main_thread_and_leaders_are_left_alone",
        orphans,
    ),
    (
        "as_the_init_of_a_namespace_orphans_are_reaped_too",
        orphans_under_init,
    ),
    (
        "a_sibling_that_a_leader_cloned_for_its_parent_is_in_the_group_too",
        sibling,
    ),
];

fn main() {
    if std::env::var_os(AS_INIT).is_some() {
        assert_eq!(std::process::id(), 1);
        return orphans();
    }
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    println!("\nrunning {} tests", CASES.len());
    let (mut passed, mut skipped) = (0, 0);
    for (name, case) in CASES {
        if filter
            .as_ref()
            .is_some_and(|part| !name.contains(part.as_str()))
        {
            skipped += 1;
            continue;
        }
        // A failed assertion panics, and the process ends with a code that is not 0.
        case();
        println!("test {name} ... ok");
        passed += 1;
    }
    println!(
        "\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; {skipped} filtered out\n"
    );
}

fn orphans() {
    let host = Host::open(QUICK);
    // A child that leaves a grandchild behind, out of the group, which ends at once.
    let exec = host.sh("setsid sh -c 'echo $$; exit 5' & exit 0");
    host.published(&exec);
    let orphan: i32 = captured(&exec, Stream::Stdout).trim().parse().unwrap();
    let mut reaped = 0;
    while reaped == 0 {
        reaped = reap_orphans();
        if reaped == 0 {
            host.orphans();
        }
    }
    assert_eq!(reaped, 1);
    assert_eq!(state_of(orphan), None);
    // The leader is not touched: it is gone only once its own group was settled.
    let kept = host.sh("(trap '' TERM; exec >/dev/null 2>&1; while :; do sleep 60; done) & exit 0");
    host.published(&kept);
    eventually("the leader is a zombie", || state_of(kept.pid) == Some('Z'));
    assert_eq!(reap_orphans(), 0);
    assert_eq!(state_of(kept.pid), Some('Z'));
}

fn orphans_under_init() {
    if rustix::process::geteuid().as_raw() != 0 {
        println!("skipped: a PID namespace needs root");
        return;
    }
    let status = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .env(AS_INIT, "1")
        .status()
        .unwrap();
    assert!(status.success(), "the init ended with {status}");
}

fn sibling() {
    let host = Host::open(QUICK);
    // CLONE_PARENT: no descendant of the leader's, but a child of the thread that started it.
    let number = if cfg!(target_arch = "x86_64") {
        56
    } else {
        220
    };
    let script = format!(
        "$pid = syscall({number}, 0x8000 | 17, 0, 0, 0, 0); \
        if (!$pid) {{ close STDOUT; close STDERR; sleep 1000 }} \
        print $pid"
    );
    let exec = host.sh(&format!("exec perl -e '{script}'"));
    host.published(&exec);
    let sibling: i32 = captured(&exec, Stream::Stdout).parse().unwrap();
    assert!(state_of(sibling).is_some(), "no sibling: {sibling}");
    assert!(!exec.facts().group_gone);
    assert_eq!(host.kill(&exec), (0, 1));
    eventually("the sibling is reaped", || state_of(sibling).is_none());
    eventually("the leader is reaped", || state_of(exec.pid).is_none());
}
