/** Who this guest is: `native/src/exports/identity.rs`. */
export const IDENTITY_SYMBOLS = {
  guestd_identity_install: { parameters: ["buffer", "u32", "buffer", "u32"], result: "i32" },
  guestd_identity_repair: {
    parameters: ["buffer", "u32", "buffer", "u32", "u32"],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;
