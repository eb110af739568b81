/** What ends guestctl: a sentence and an exit code. */

import {
  GuestError,
  IdentityRefused,
  NotBootstrapped,
  SpawnFailed,
  Unauthorized,
} from "../client/mod.ts";

/** Exit codes besides those of commands. */
export const EXIT = { ok: 0, failed: 1, own: 125, notFound: 127, signal: 128 } as const;

/** An end with a sentence for people. */
export class Failure extends Error {
  /** Exit code. */
  readonly code: number;

  /** Makes one; without a code it is guestctl's own failure. */
  constructor(sentence: string, code: number = EXIT.own) {
    super(sentence);
    this.code = code;
  }
}

/** What an error of any kind means for whoever typed the command. */
export function failureOf(error: unknown, url: string): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof SpawnFailed) return new Failure(error.message, EXIT.notFound);
  if (error instanceof Unauthorized) {
    return new Failure(`Cannot go on: the token is not that of the guest at ${url}`);
  }
  if (error instanceof NotBootstrapped) {
    return new Failure("Cannot go on: the guest has no token yet: try guestctl bootstrap");
  }
  if (error instanceof IdentityRefused) {
    return new Failure("Cannot connect: the guest at that address has another identity, or none");
  }
  if (error instanceof GuestError) return new Failure(error.message);
  if (error instanceof Deno.errors.BrokenPipe) return new Failure("", EXIT.signal + 13);
  if (error instanceof Error) return new Failure(`Cannot go on: ${error.message}`);
  return new Failure(`Cannot go on: ${error}`);
}
