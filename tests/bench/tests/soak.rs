//! The short soak, against the daemon of this checkout.

use std::path::Path;

use guestd_bench::soak::{Plan, run};

#[test]
fn many_clients_that_get_lost_and_come_back_lose_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    assert!(run(&root, Plan::SHORT).unwrap());
}
