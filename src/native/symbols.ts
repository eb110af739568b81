/** Every function of the library, in the order of `native/src/exports/`: a file a family. */
export const SYMBOLS = {
  // Opening, closing, waking: core.rs
  guestd_abi_version: { parameters: [], result: "u32" },
  guestd_open: { parameters: ["u32", "u32", "f64", "f64", "f64", "buffer", "u32"], result: "i32" },
  guestd_close: { parameters: [], result: "i32" },
  guestd_wait: { parameters: ["buffer", "u32"], result: "i32", nonblocking: true },
  guestd_suspended: { parameters: [], result: "i32" },
  guestd_resumed: { parameters: [], result: "i32" },
  guestd_drain: { parameters: [], result: "i32" },
  guestd_end_all: { parameters: ["u32", "u32"], result: "i32" },
  // One exec: exec.rs
  guestd_exec_start: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_exec_facts: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_exec_output: { parameters: ["u32", "u32", "u32", "buffer", "u32"], result: "i32" },
  guestd_exec_release: { parameters: ["u32"], result: "i32" },
  guestd_exec_collect: { parameters: ["u32"], result: "i32" },
  guestd_exec_kill: { parameters: ["u32", "u32"], result: "i32" },
  guestd_exec_stdin: { parameters: ["u32", "buffer", "u32", "u32", "u32"], result: "i32" },
  guestd_digest: { parameters: ["buffer", "u32"], result: "i32" },
  guestd_reap_orphans: { parameters: [], result: "i32" },
  // Readers of an exec's stream: stream.rs
  guestd_stream_open: { parameters: ["u32", "u64"], result: "i32" },
  guestd_stream_next: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_stream_close: { parameters: ["u32"], result: "i32" },
  // Files and trees on their way: files.rs
  guestd_file_open: { parameters: ["buffer", "u32", "u64", "u64", "u32"], result: "i32" },
  guestd_tree_open: { parameters: ["buffer", "u32", "u64", "u64", "u32"], result: "i32" },
  guestd_upload_file: {
    parameters: ["buffer", "u32", "i32", "u64", "buffer", "u32", "u32"],
    result: "i32",
  },
  guestd_upload_tree: {
    parameters: ["buffer", "u32", "u64", "buffer", "u32", "u32"],
    result: "i32",
  },
  guestd_transfer_carry: { parameters: ["u32", "buffer", "u32", "u32"], result: "i32" },
  guestd_transfer_finish: { parameters: ["u32", "u64", "u64", "u32"], result: "i32" },
  guestd_transfer_close: { parameters: ["u32", "u32"], result: "i32" },
  guestd_failure_take: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  // Process table, free space, power: system.rs
  guestd_members: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_disk_available: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_is_ignored: { parameters: ["i32"], result: "i32" },
  guestd_missing_call: { parameters: ["buffer", "u32"], result: "i32" },
  guestd_ready: { parameters: ["buffer", "u32"], result: "i32" },
  guestd_trim: { parameters: [], result: "i32" },
  guestd_own_kib: { parameters: [], result: "i32" },
  guestd_power_off: { parameters: [], result: "i32" },
  // Who this guest is: identity.rs
  guestd_identity_install: { parameters: ["buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_identity_repair: {
    parameters: ["buffer", "u32", "buffer", "u32", "u32"],
    result: "i32",
  },
  // Sessions of the tunnels' Noise: noise.rs
  guestd_noise_accept: { parameters: ["u32", "buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_noise_seal: { parameters: ["u32", "buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_noise_open: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_noise_close: { parameters: ["u32"], result: "i32" },
  // This process's own connections: connections.rs
  guestd_connection_watch: { parameters: ["buffer", "u32", "u32", "u32"], result: "i32" },
  guestd_connection_facts: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_connection_end: { parameters: ["u32"], result: "i32" },
  guestd_connection_forget: { parameters: ["u32"], result: "i32" },
  guestd_connections_follow: { parameters: ["u32", "u32", "u32"], result: "i32" },
  guestd_connections_changes: { parameters: ["buffer", "u32"], result: "i32" },
  guestd_connections_expel: { parameters: ["u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
