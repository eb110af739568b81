import type { Outcome, Phase } from "./exec.ts";

/** An outcome without its output, and whose it is. */
export interface OutcomeHead extends Omit<Outcome, "stdout" | "stderr"> {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Phase that the answer gives. */
  readonly phase: Phase;
}

/**
 * A `PollResponse` with an outcome, cut where its two outputs belong: before stdout, between the
 * two, and behind stderr. The outputs go between as JSON string contents, so that megabytes of them
 * need not be in memory at once.
 */
export function outcomeFrame(head: OutcomeHead): readonly [string, string, string] {
  const { exec_id, phase, exit_code, signal, truncated, writers_may_be_alive } = head;
  const before = JSON.stringify({ exec_id, phase, exit_code, signal });
  const behind = JSON.stringify({ truncated, writers_may_be_alive });
  return [`${before.slice(0, -1)},"stdout":"`, `","stderr":"`, `",${behind.slice(1)}`];
}
