/** Tunnels: `native/src/exports/tunnel.rs`. */
export const TUNNEL_SYMBOLS = {
  guestd_tunnel_open: { parameters: ["u32", "u32", "u32", "u32"], result: "i32" },
  guestd_tunnel_feed: {
    parameters: ["u32", "buffer", "u32", "u32", "u32"],
    result: "i32",
  },
  guestd_tunnel_close: { parameters: ["u32", "u32", "buffer", "u32", "u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
