/** Files and trees on their way: `native/src/exports/files.rs`. */
export const FILE_SYMBOLS = {
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
} as const satisfies Deno.ForeignLibraryInterface;
