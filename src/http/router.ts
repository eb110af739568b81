import type { AgentToken } from "../bootstrap/bootstrap.ts";
import type { Limits } from "../contract/limits.ts";
import { PlainRefusal, Refusal } from "../contract/refusal.ts";
import type { RouteName, RouteRow } from "../contract/rows.ts";
import { Mismatch } from "../contract/schema.ts";
import { VERSION } from "../contract/version.ts";
import type { Log } from "../log.ts";
import { type ConnectionLimits, NO_VISIT, type Visit } from "./connection_limits.ts";
import { BodyLost, hasBody, isTooSlow, leaveBody } from "./framing.ts";
import { json, text } from "./respond.ts";
import { cutTarget, Query, Roster } from "./target.ts";

/** A request that found its route and passed the gate. */
export interface Call {
  /** The request; nothing of its body is read. */
  readonly request: Request;
  /** The route. */
  readonly row: RouteRow;
  /** The `{id}` of the path, decoded; undefined when it cannot be decoded or the path has none. */
  readonly id: string | undefined;
  /** The query. */
  readonly query: Query;
  /** Deno's facts about the connection. */
  readonly info: Deno.ServeHandlerInfo;
  /** For who uses the connection for longer than it takes to answer. */
  readonly visit: Visit;
}

/**
 * Answers one route. May throw a `Refusal`, a `PlainRefusal` or a `Mismatch`; all else is an
 * unexpected failure.
 */
export type Handler = (call: Call) => Response | Promise<Response>;

/** One handler for each route. */
export type Handlers = Readonly<Record<RouteName, Handler>>;

/** The installed token, as far as the gate needs it. */
export type TokenSource = Pick<AgentToken, "installed" | "matches">;

/** What a router needs. */
export interface RouterOptions {
  /** Limits in force. */
  readonly limits: Limits;
  /** Path prefix of the hooks. */
  readonly hookPrefix: string;
  /** Name of the header that carries the version on every answer. */
  readonly versionHeader: string;
  /** One handler for each route. */
  readonly handlers: Handlers;
  /** The installed token. */
  readonly token: TokenSource;
  /** Where failures are logged. */
  readonly log: Log;
  /** Is told of each request when it comes and when it is answered whole, for a long one leaves at its end what it took. */
  readonly traffic?: { readonly note: () => void };
  /** Is told of each request, for a connection that is in use is not ended. */
  readonly connections?: Pick<ConnectionLimits, "enter">;
}

/** What `Deno.serve` is given. */
export interface Router {
  /** Answers a request; never rejects. */
  readonly serve: Deno.ServeHandler;
  /** From now on every answer says `Connection: close`. */
  readonly drain: () => void;
  /** Ends as soon as no request is being answered: at once, if none is. */
  readonly idle: () => Promise<void>;
  /** Ends as soon as no request that is being handled has a body, which may still be arriving. */
  readonly bodiesRead: () => Promise<void>;
  /** For `Deno.serve`'s option of that name: answers what failed outside of {@link serve}. */
  readonly onError: (error: unknown) => Response;
}

/** Makes the router: path before method, method before auth, auth before query and body. */
export function createRouter(options: RouterOptions): Router {
  const { limits, versionHeader, token, handlers, log, traffic, connections } = options;
  const roster = new Roster(options.hookPrefix);
  const inFlight = new InFlight(() => traffic?.note());
  const withBody = new InFlight();
  let draining = false;

  /** The one place that finishes an answer, so that each carries the version exactly once. */
  function finish(response: Response, close: boolean): Response {
    response.headers.set(versionHeader, VERSION);
    if (close) response.headers.set("connection", "close");
    return response;
  }

  /** At once where the handler can: Deno's server takes much longer over a promise, of which floods are made. */
  function answer(
    request: Request,
    info: Deno.ServeHandlerInfo,
    visit: Visit,
  ): Response | Promise<Response> {
    const target = cutTarget(request.url, request.headers.get("host"));
    if (target === undefined) return text(400, "The authority must be host[:port].");
    const fits = roster.find(target.path)
      .filter(({ row }) => row.auth !== "PlatformHook" || !isOfWebPage(request.headers));
    if (fits.length === 0) return text(404, "No such route: GET /v1/schema lists all.");
    const fit = fits.find(({ row }) => row.method === request.method);
    if (fit === undefined) {
      const allow = fits.map(({ row }) => row.method).join(", ");
      return text(405, `The route takes ${allow} only.`, { allow });
    }
    const { row, id } = fit;
    const refused = (error: unknown): Response => {
      // Deno's server takes the bodies that are still arriving away when it stops accepting (denoland/deno#36809).
      if (error instanceof BodyLost && draining) return answerFailure(row, "the daemon ends");
      return answerError(error, row, log);
    };
    try {
      if (row.auth === "Bearer") {
        const refusal = refuseEntry(request, token);
        if (refusal !== undefined) return refusal;
        visit.authorized();
      }
      const call: Call = { request, row, id, query: new Query(target.query), info, visit };
      const answered = handlers[row.name](call);
      return answered instanceof Promise ? answered.catch(refused) : answered;
    } catch (error) {
      return refused(error);
    }
  }

  /** What there is to do once an answer is there. */
  function complete(request: Request, visit: Visit, response: Response): Response {
    if (response.status === 101) return finish(response, false);
    if (isTooSlow(request)) visit.leave();
    const close = leaveBody(request, limits.max_drain_bytes);
    return finish(response, close || draining);
  }

  return {
    serve(request: Request, info: Deno.ServeHandlerInfo): Response | Promise<Response> {
      traffic?.note();
      inFlight.enter(info.completed);
      const visit = connections?.enter(info.remoteAddr, info.completed) ?? NO_VISIT;
      if (visit.isFlooding) return finish(new Response(null, { status: 400 }), true);
      // Asked first: after an upgrade the request is no longer there to be looked at.
      const arriving = hasBody(request);
      const answered = answer(request, info, visit);
      if (answered instanceof Response) return complete(request, visit, answered);
      if (arriving) withBody.enter(answered);
      return answered.then((response) => complete(request, visit, response));
    },
    drain: () => void (draining = true),
    idle: () => inFlight.idle(),
    bodiesRead: () => withBody.idle(),
    onError(error: unknown): Response {
      logFailure(log, "an answer failed", "", error);
      return finish(text(500, "The daemon failed to answer."), false);
    },
  };
}

function answerError(error: unknown, row: RouteRow, log: Log): Response {
  if (error instanceof Refusal) return json(error.status, error.body());
  if (error instanceof PlainRefusal) return text(error.status, error.text);
  if (error instanceof Mismatch) return answerMismatch(error, row);
  if (error instanceof BodyLost) {
    log.debug("a request's body ended early", { route: row.name });
    return text(400, error.text);
  }
  logFailure(log, "a handler failed", row.name, error);
  return answerFailure(row, "the daemon failed unexpectedly; its log says where");
}

/** Why a request was refused, for the log: of what is unexpected the kind alone, for its words may be the client's. */
export function reasonOf(error: unknown): string {
  if (error instanceof Refusal) return error.reason;
  const isOurs = [Mismatch, PlainRefusal, BodyLost].some((kind) => error instanceof kind);
  return error instanceof Error ? (isOurs ? error.message : error.name) : typeof error;
}

/** The answer to a query that does not decode: with a slug where the protocol has one. */
function answerMismatch(error: Mismatch, row: RouteRow): Response {
  const slugged = row.statuses.some((status) => status.error === "malformed_request");
  return slugged
    ? json(400, new Refusal("malformed_request", error.message).body())
    : text(400, error.message);
}

/**
 * The answer to a failure that is not the client's. A hook that is not answered with 200 kills the VM.
 */
function answerFailure(row: RouteRow, detail: string): Response {
  if (row.name === "exec_start") return json(500, new Refusal("spawn_failed", detail).body());
  if (row.name === "exec_stdin") return json(500, new Refusal("stdin_write_failed", detail).body());
  if (row.auth === "PlatformHook" && row.request === null) return new Response(null);
  return text(500, `Cannot go on: ${detail}`);
}

/** Logs an error by its kind and place: a message may quote what the client sent. */
function logFailure(log: Log, msg: string, route: string, error: unknown): void {
  const kind = error instanceof Error ? error.name : typeof error;
  const frames = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  const at = frames.filter((line) => line.startsWith("    at ")).slice(0, 8);
  log.error(msg, { route, kind, at: at.map((line) => line.trim()).join(" < ") });
}

/**
 * Whether a browser sends a request for a web page, which may name any address, loopback too. For such a request there
 * are no hooks: those ask for no token, and one of them takes the token, another ends the VM.
 */
function isOfWebPage(headers: Headers): boolean {
  return headers.has("origin") || (headers.get("sec-fetch-site") ?? "none") !== "none";
}

/**
 * The answer to a Bearer request that may not pass, or undefined. Looks at the `Authorization`
 * header alone.
 *
 * Deno joins two headers to one value with ", " between them, and so they present one odd token.
 */
function refuseEntry(request: Request, token: TokenSource): Response | undefined {
  if (!token.installed) return text(503, "No token is installed yet.");
  const header = request.headers.get("authorization");
  const presented = presentedToken(header ?? "");
  if (presented !== undefined && token.matches(presented)) return undefined;
  const fault = header === null
    ? "is missing: it has to be Bearer and the token"
    : presented === undefined
    ? "is wrong: it has to be Bearer and the token"
    : "is wrong: its token is not the installed one";
  return text(401, `The header Authorization ${fault}.`, { "www-authenticate": "Bearer" });
}

/** The raw bytes after `Bearer `, the scheme in any case; undefined for anything else. */
function presentedToken(header: string): Uint8Array | undefined {
  const space = header.indexOf(" ");
  if (space === -1 || header.slice(0, space).toLowerCase() !== "bearer") return undefined;
  // Deno hands each byte of a header over as one char, so this restores what was on the wire.
  const bytes = new Uint8Array(header.length - space - 1);
  for (let at = 0; at < bytes.length; at++) bytes[at] = header.charCodeAt(space + 1 + at);
  return bytes;
}

/**
 * Requests of which something is still under way.
 *
 * Invariant: `#count` is the number of promises given to `enter` that have not settled; somebody
 * waits in `#waiting` only while it is not 0.
 */
class InFlight {
  readonly #onLeave: () => void;
  #count = 0;
  readonly #waiting = new Set<() => void>();

  /** None yet; calls `onLeave` for each that settles. */
  constructor(onLeave: () => void = () => {}) {
    this.#onLeave = onLeave;
  }

  /** Counts a request until `completed` settles. */
  enter(completed: Promise<unknown>): void {
    this.#count++;
    const leave = (): void => this.#leave();
    completed.then(leave, leave);
  }

  /** Ends as soon as there are none: at once, if there are none now. */
  async idle(): Promise<void> {
    if (this.#count === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    await promise;
  }

  #leave(): void {
    this.#onLeave();
    if (--this.#count > 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
