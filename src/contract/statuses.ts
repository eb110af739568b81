import { type Slug, SLUGS } from "./refusal.ts";

/** One status that a route answers. */
export interface StatusRow {
  /** HTTP status. */
  readonly code: number;
  /** Error slug; empty where there is none. */
  readonly error: Slug | "";
  /** What the status tells the caller. */
  readonly meaning: string;
}

/** A status without a slug. */
export function status(code: number, meaning: string): StatusRow {
  return { code, error: "", meaning };
}

/** The status of `slug`, by default with the slug's own meaning. */
export function slugged(slug: Slug, meaning: string = SLUGS[slug].meaning): StatusRow {
  return { code: SLUGS[slug].status, error: slug, meaning };
}

/** What every Bearer route may answer before anything else. */
export const BEARER_STATUSES: readonly StatusRow[] = [
  status(
    401,
    "The token differs from the installed one, or the Authorization header is missing or of " +
      "another form; one line of text.",
  ),
  status(503, "No token is installed yet; one line of text."),
];

/** The 404 of every exec route with an id. */
export const UNKNOWN_EXEC: StatusRow = slugged("unknown_exec");
