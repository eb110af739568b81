import { limitVariable } from "../contract/limits.ts";
import { PlainRefusal } from "../contract/refusal.ts";
import { ENOENT, ENOTDIR } from "../native/errno.ts";
import { TransferError, TransferStatus } from "../native/transfer.ts";
import type { TransferLine } from "./transfer_line.ts";

/** What sets the limits of trees. */
const TREE_LIMITS = ["max_tar_members", "max_tar_bytes"].map(limitVariable).join(", ");

/** What a route answers to failures that have a status of their own; the others are 500. */
export type Statuses = ReadonlyMap<number, number>;

/** Reading a file. */
export const FILE_READ: Statuses = new Map([
  [ENOENT, 404],
  [ENOTDIR, 404],
  [TransferStatus.isDirectory, 400],
]);

/** Writing a file. */
export const FILE_WRITE: Statuses = new Map([
  [TransferStatus.underReserve, 507],
]);

/** Packing a tree. */
export const TAR_READ: Statuses = new Map([
  [ENOENT, 404],
  [ENOTDIR, 404],
  [TransferStatus.notDirectory, 400],
  [TransferStatus.overLimit, 413],
]);

/** Extracting an archive. */
export const TAR_WRITE: Statuses = new Map([
  [TransferStatus.refused, 400],
  [TransferStatus.overLimit, 413],
  [TransferStatus.underReserve, 507],
]);

/** Runs a transfer and turns its failure into the answer that `statuses` gives it, and into its line of the log. */
export async function refusing<T>(
  statuses: Statuses,
  line: TransferLine,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TransferError)) {
      // The body's fault, or an unexpected one, whose words may be the client's.
      const { name, message } = error instanceof Error ? error : new Error();
      const reason = error instanceof PlainRefusal ? message : name;
      line.tell("info", "a transfer was refused", { reason });
      throw error;
    }
    const status = statuses.get(error.status) ?? 500;
    const { message: reason } = error;
    // Whoever asked has left, or the daemon ends.
    if (error.status === TransferStatus.cancelled) {
      line.tell("info", "a transfer was stopped", { reason });
    } else if (status < 500) line.tell("info", "a transfer was refused", { status, reason });
    else line.tell("warn", "a transfer failed", { errno: error.status, status, reason });
    const limits = error.status === TransferStatus.overLimit ? ` (${TREE_LIMITS})` : "";
    throw new PlainRefusal(status, error.message + limits);
  }
}
