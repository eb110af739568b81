import { exceeds } from "./limits.ts";
import { object } from "./object.ts";
import { choice, text } from "./schema.ts";

/** A slug's status and what it tells the client. */
interface SlugRow {
  readonly status: number;
  readonly meaning: string;
}

/** The closed set of error slugs. */
export const SLUGS = {
  malformed_request: {
    status: 400,
    meaning: "The body, stream offset or tunnel port is not valid; the detail names the field.",
  },
  unknown_exec: {
    status: 404,
    meaning: "No exec under the id, or it was collected after its ack.",
  },
  still_running: { status: 409, meaning: "The exec is still running; nothing changed." },
  already_acked: { status: 409, meaning: "The exec was acked before." },
  spawn_failed: {
    status: 500,
    meaning:
      "The child could not be spawned; the detail names the step, the program or `cwd` that " +
      "cannot be used, and the errno.",
  },
  stdin_write_timeout: {
    status: 408,
    meaning: "The child did not read in time; may be retried, some bytes may have been written.",
  },
  stdin_not_requested: { status: 409, meaning: "The exec was started without `stdin: true`." },
  stdin_closed: {
    status: 410,
    meaning: "Stdin is closed, by an earlier eof or by the child; a retry never succeeds.",
  },
  stdin_write_too_large: {
    status: 413,
    meaning: "The decoded write exceeds `limits.max_stdin_write_bytes`.",
  },
  stdin_write_failed: {
    status: 500,
    meaning: "The write failed for a reason other than a broken pipe.",
  },
} as const satisfies Record<string, SlugRow>;

/** One of the protocol's error slugs. */
export type Slug = keyof typeof SLUGS;

/** All of them. */
export const SLUG_NAMES: readonly Slug[] = Object.keys(SLUGS) as Slug[];

/** Body of a failing exec endpoint. Branch on `error`; `detail` is prose for logs. */
export class ErrorBody extends object({
  /** One of the slugs. */
  error: choice(SLUG_NAMES),
  /** Prose. It holds nothing of a token, a payload or an environment's values. */
  detail: text(),
}) {}

/** A request that is answered with an {@link ErrorBody} as JSON. */
export class Refusal extends Error {
  /** Slug of the answer. */
  readonly slug: Slug;
  /** HTTP status that belongs to the slug. */
  readonly status: number;
  /** Prose of the answer; of the request it repeats the id, program, directory, path or port at most. */
  readonly detail: string;
  /** The same for the log, which others read too. */
  readonly reason: string;

  /** Makes the refusal that `slug` stands for. */
  constructor(slug: Slug, detail: string, reason: string = detail) {
    super(`${slug}: ${reason}`);
    this.name = "Refusal";
    this.reason = reason;
    this.slug = slug;
    this.status = SLUGS[slug].status;
    this.detail = detail;
  }

  /** The answer's body. */
  body(): ErrorBody {
    return { error: this.slug, detail: this.detail };
  }
}

/** A request that is answered with one line of `text/plain`. */
export class PlainRefusal extends Error {
  /** HTTP status of the answer. */
  readonly status: number;
  /** The line, without its end; of the request it repeats a path or the name of a field at most. */
  readonly text: string;

  /** Makes a refusal with the given status and line. */
  constructor(status: number, text: string) {
    super(text);
    this.name = "PlainRefusal";
    this.status = status;
    this.text = text;
  }
}

/** The refusal of a body above `max_body_bytes`. */
export function bodyTooLarge(maxBytes: number): PlainRefusal {
  return new PlainRefusal(413, `${exceeds("The body", maxBytes, "max_body_bytes")}.`);
}

/** Most characters that an answer or the log repeats of a word of the client's. */
const SHOWN = 200;

/** The beginning of a client's word, an id say, for a field of the log. */
export function cut(word: string): string {
  return word.length > SHOWN ? `${word.slice(0, SHOWN)}…` : word;
}

/** The same for a sentence: in quotes, and what would break its line is escaped. */
export function quoted(word: string): string {
  return JSON.stringify(cut(word));
}
