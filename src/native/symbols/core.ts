/** Opening, closing, waking: `native/src/exports/core.rs`. */
export const CORE_SYMBOLS = {
  guestd_abi_version: { parameters: [], result: "u32" },
  guestd_open: { parameters: ["u32", "u32", "f64", "f64", "f64", "buffer", "u32"], result: "i32" },
  guestd_close: { parameters: [], result: "i32" },
  guestd_wait: { parameters: ["buffer", "u32"], result: "i32", nonblocking: true },
  guestd_suspended: { parameters: [], result: "i32" },
  guestd_resumed: { parameters: [], result: "i32" },
  guestd_drain: { parameters: [], result: "i32" },
  guestd_end_all: { parameters: ["u32", "u32"], result: "i32" },
  guestd_kill_all: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
