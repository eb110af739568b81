/** Process table, free space, power: `native/src/exports/system.rs`. */
export const SYSTEM_SYMBOLS = {
  guestd_members: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_disk_available: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  guestd_log: { parameters: ["buffer", "u32"], result: "i32" },
  guestd_is_ignored: { parameters: ["i32"], result: "i32" },
  guestd_trim: { parameters: [], result: "i32" },
  guestd_own_kib: { parameters: [], result: "i32" },
  guestd_power_off: { parameters: [], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
