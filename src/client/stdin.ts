/** A command's standard input as a stream. */

import { DEFAULT_LIMITS } from "../contract/limits.ts";
import { ConnectionLost, StdinClosed, StdinTimeout, TooLarge } from "./errors.ts";
import { writeStdin } from "./exec_calls.ts";
import type { Requests } from "./requests.ts";

/**
 * Bytes written here reach the child in order, each once, in writes that the guest takes; a child that does not read
 * makes the writer wait. Closing it sends the end of file. It fails with `StdinClosed` where the child stopped reading,
 * and with `ConnectionLost` where the connection broke in a write: how much of that arrived nobody knows, so nothing is
 * sent again.
 */
export function stdinStream(
  requests: Requests,
  id: string,
  signal: AbortSignal,
): WritableStream<Uint8Array> {
  let most: number = DEFAULT_LIMITS.max_stdin_write_bytes;

  /** What of the bytes the pipe took; 0 where the guest wants smaller writes. */
  const writeSome = async (bytes: Uint8Array): Promise<number> => {
    try {
      return (await writeStdin(requests, id, bytes, { signal })).written;
    } catch (error) {
      // The child has not read for a while. It may, and the pipe knows what it took.
      if (error instanceof StdinTimeout && error.written !== undefined) return error.written;
      if (error instanceof ConnectionLost) {
        const text = "Cannot write to stdin: the connection broke, and what arrived is not known";
        throw new ConnectionLost(text, { cause: error });
      }
      if (!(error instanceof TooLarge)) throw error;
      const { max_stdin_write_bytes } = await requests.limits(signal);
      if (max_stdin_write_bytes >= bytes.length) throw error;
      most = max_stdin_write_bytes;
      return 0;
    }
  };
  const end = async (): Promise<void> => {
    try {
      await writeStdin(requests, id, new Uint8Array(), { eof: true, signal });
    } catch (error) {
      // A child that reads no more needs no end, and one that got it before has it.
      if (!(error instanceof StdinClosed)) throw error;
    }
  };
  return new WritableStream({
    async write(bytes): Promise<void> {
      for (let at = 0; at < bytes.length;) at += await writeSome(bytes.subarray(at, at + most));
    },
    close: end,
    abort: async (): Promise<void> => await end().catch(() => {}),
  });
}
