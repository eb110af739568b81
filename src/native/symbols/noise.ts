/** Sessions of the tunnels' Noise: `native/src/exports/noise.rs`. */
export const NOISE_SYMBOLS = {
  guestd_noise_accept: { parameters: ["u32", "buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_noise_confirms: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_noise_seal: { parameters: ["u32", "buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_noise_open: { parameters: ["u32", "buffer", "u32"], result: "i32" },
  guestd_noise_close: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
