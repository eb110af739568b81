import type { StdinWrite } from "../contract/exec.ts";
import { Refusal } from "../contract/refusal.ts";
import { EPIPE, errnoText, ETIMEDOUT } from "../native/errno.ts";
import type { Exec } from "./exec.ts";

/**
 * Writes to an exec's stdin and returns the number of bytes. Throws, in this order,
 * `stdin_not_requested`, `stdin_write_too_large`, `stdin_closed`; then what the write came to.
 */
export async function writeStdin(
  exec: Exec,
  write: StdinWrite,
  maxBytes: number,
): Promise<number> {
  if (!exec.hasStdin) {
    throw new Refusal("stdin_not_requested", "the exec was started without stdin");
  }
  const data = write.data ?? new Uint8Array();
  if (data.length > maxBytes) {
    throw new Refusal("stdin_write_too_large", `the decoded write exceeds ${maxBytes} bytes`);
  }
  const { status, value } = await exec.native.writeStdin(data, write.eof);
  if (status === 0) return value;
  if (status === EPIPE) {
    throw new Refusal("stdin_closed", "stdin was closed, or the child stopped reading");
  }
  if (status === ETIMEDOUT) {
    throw new Refusal("stdin_write_timeout", `the child did not read in time: ${value} bytes went`);
  }
  throw new Refusal("stdin_write_failed", `the write failed: ${errnoText(status)}`);
}
