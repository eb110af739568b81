/** Callers' connections: `native/src/exports/caller.rs`. */
export const CALLER_SYMBOLS = {
  guestd_caller_hold: { parameters: ["buffer", "u32", "u32", "u32", "u32"], result: "i32" },
  guestd_caller_drop: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
