/** This process's own connections: `native/src/exports/connections.rs`. */
export const CONNECTION_SYMBOLS = {
  guestd_connection_watch: { parameters: ["buffer", "u32", "u32", "u32"], result: "i32" },
  guestd_connection_facts: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_connection_end: { parameters: ["u32", "u32"], result: "i32" },
  guestd_connection_forget: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
