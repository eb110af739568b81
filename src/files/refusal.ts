import { limitVariable } from "../contract/limits.ts";
import { PlainRefusal } from "../contract/refusal.ts";
import type { Log } from "../log.ts";
import { ENOENT, ENOTDIR, TransferError, TransferStatus } from "../native/transfer.ts";

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

/** Runs a transfer and turns its failure into the answer that `statuses` gives it. */
export async function refusing<T>(
  statuses: Statuses,
  log: Log,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TransferError)) throw error;
    const status = statuses.get(error.status) ?? 500;
    if (error.status === TransferStatus.cancelled) {
      // Whoever asked has left, or the daemon ends.
      log.info("a transfer was stopped", { reason: error.message });
    } else if (status >= 500) {
      log.warn("a transfer failed", { errno: error.status, status, reason: error.message });
    }
    const limits = error.status === TransferStatus.overLimit ? ` (${TREE_LIMITS})` : "";
    throw new PlainRefusal(status, error.message + limits);
  }
}
