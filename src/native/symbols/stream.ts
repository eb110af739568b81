/** Readers of an exec's stream: `native/src/exports/stream.rs`. */
export const STREAM_SYMBOLS = {
  guestd_stream_open: { parameters: ["u32", "u64"], result: "i32" },
  guestd_stream_next: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_stream_close: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
