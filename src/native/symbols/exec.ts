/** One exec: `native/src/exports/exec.rs`. */
export const EXEC_SYMBOLS = {
  guestd_exec_start: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_exec_facts: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_exec_output: { parameters: ["u32", "u32", "u32", "buffer", "u32"], result: "i32" },
  guestd_exec_release: { parameters: ["u32"], result: "i32" },
  guestd_exec_collect: { parameters: ["u32"], result: "i32" },
  guestd_exec_kill: { parameters: ["u32", "u32"], result: "i32" },
  guestd_exec_stdin: { parameters: ["u32", "buffer", "u32", "u32", "u32"], result: "i32" },
  guestd_reap_orphans: { parameters: [], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
