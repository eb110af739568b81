import { exceeds, type Limits } from "../contract/limits.ts";
import { bodyTooLarge, PlainRefusal, Refusal } from "../contract/refusal.ts";
import { within } from "../within.ts";
import { BodyMemory, type BodyPlace } from "./body_memory.ts";
import { BodySource } from "./body_source.ts";
import { beginBody, BodyLost, declaredLength, giveUpBody } from "./framing.ts";
import { HookBodies } from "./hook_bodies.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Most bytes of a start body that are looked at: no kernel takes such an argument list. */
const START_BYTES = 16 * MIB;
/** Most bytes of a stdin body with the default limits. */
const STDIN_BYTES = 2 * MIB;
/** Most bytes of a run hook's body; the platform allows 4096 for the payload. */
const RUN_HOOK_BYTES = 64 * KIB;
/** It is read in pieces of so many bytes: Deno keeps, of each connection, as much as was ever asked for. */
const HOOK_PIECE_BYTES = 4 * KIB;

/** What bodies of starts hold together, in bytes: two of the largest, so that one arrives while one is used. */
const START_MEMORY = 2 * START_BYTES;
/** A start's text, values and lists take several times its bytes: nearly each large one is cleared away by itself. */
const START_COLLECT = 8 * MIB;
/** What stdin bodies hold together, at least, in bytes. */
const STDIN_MEMORY = 32 * MIB;
/** They leave two strings each, and there may be hundreds a second. */
const STDIN_COLLECT = 32 * MIB;
/**
 * Up to here a body costs no more than its connection does anyway, and waits for nobody: that is nearly every one, and
 * every hook. The beginnings of others are read too, so that who declares much and sends little takes no place.
 */
const FREE_BYTES = 64 * KIB;

/** How much of a body that is read whole has to come in each time that a request may take, in bytes. */
const PACE_BYTES = 64 * KIB;

/** Reads the bodies that are kept whole. */
export class Bodies {
  readonly #limits: Limits;
  readonly #ms: number;
  /** Neither starts nor stdin writes wait for the other: a child that does not read holds up writes alone. */
  readonly #starts: BodyMemory;
  readonly #writes: BodyMemory;
  readonly #hooks: HookBodies;

  /**
   * None has come. Each has to bring 64 KiB, or be whole, within `requestMs` milliseconds, a hook's to be whole; `collect` frees at once what used
   * ones left behind.
   */
  constructor(limits: Limits, requestMs: number, collect?: () => void) {
    this.#limits = limits;
    this.#ms = requestMs;
    this.#hooks = new HookBodies(requestMs);
    this.#starts = new BodyMemory({ bytes: START_MEMORY, collect, collectBytes: START_COLLECT });
    this.#writes = new BodyMemory({
      bytes: Math.max(STDIN_MEMORY, this.#stdinBytes),
      collect,
      collectBytes: STDIN_COLLECT,
    });
  }

  /**
   * Body of a start. Throws 413 above `max_body_bytes`, `spawn_failed` above 16 MiB once all of it
   * was dropped, and {@link BodyLost}.
   */
  async start(request: Request): Promise<Body> {
    const maxBytes = this.#limits.max_body_bytes;
    const body = await this.#read(request, START_BYTES, maxBytes, this.#starts);
    if (body === "too large") throw bodyTooLarge(maxBytes);
    if (body === "dropped") {
      throw new Refusal("spawn_failed", "the argument list is too long: the body exceeds 16 MiB");
    }
    return body;
  }

  /** Body of a stdin write. Throws `stdin_write_too_large` and {@link BodyLost}. */
  async stdin(request: Request): Promise<Body> {
    const max = this.#stdinBytes;
    const body = await this.#read(request, max, max, this.#writes);
    if (typeof body === "string") {
      const text = exceeds("the body", max, "max_stdin_write_bytes");
      throw new Refusal("stdin_write_too_large", text);
    }
    return body;
  }

  /** Whether as many run hooks arrive from `peer` as may. */
  hasHooksOf(peer: string): boolean {
    return this.#hooks.isFullFor(peer);
  }

  /** Body of the run hook, which came from `peer`. Throws 400 above 64 KiB, and {@link BodyLost}. */
  async runHook(request: Request, peer: string): Promise<Body> {
    if ((declaredLength(request) ?? 0) > RUN_HOOK_BYTES) throw hookTooLarge();
    if (request.body === null) return new Body(new Uint8Array());
    using arrival = this.#hooks.begin(peer, (text) => source.giveUp(text));
    beginBody(request);
    const source = new BodySource(request, request.body);
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let received = 0;
    for (let ended = false; !ended;) {
      const { chunk, done } = await source.fill(new ArrayBuffer(HOOK_PIECE_BYTES));
      ended = done;
      received += chunk.length;
      if (received > RUN_HOOK_BYTES) {
        source.abandon();
        throw hookTooLarge();
      }
      pieces.push(chunk.slice());
      arrival.came(chunk.length);
    }
    return new Body(await new Blob(pieces).bytes());
  }

  get #stdinBytes(): number {
    return Math.max(STDIN_BYTES, 2 * this.#limits.max_stdin_write_bytes);
  }

  /** Reads a body of which `keepBytes` are kept at most; a larger one is dropped, up to `maxBytes`. */
  async #read(
    request: Request,
    keepBytes: number,
    maxBytes: number,
    memory: BodyMemory,
  ): Promise<Body | "dropped" | "too large"> {
    const declared = declaredLength(request);
    if (declared !== undefined && declared > maxBytes) return "too large";
    if (request.body === null) return new Body(new Uint8Array());
    beginBody(request);
    if (declared !== undefined && declared <= FREE_BYTES) return await this.#readSmall(request);
    using source = new BodySource(request, request.body, { bytes: PACE_BYTES, ms: this.#ms });
    const mostBytes = Math.min(declared ?? keepBytes, keepBytes);
    using claims = new DisposableStack();
    let place: BodyPlace | undefined;
    // Of a body that is dropped as it comes no more is kept than this.
    let kept = new Uint8Array();
    let received = 0;
    let dropped = declared !== undefined && declared > keepBytes;
    let spare = new ArrayBuffer(FREE_BYTES);
    for (let ended = false; !ended;) {
      const { chunk, done } = await source.fill(spare, maxBytes - received + 1);
      ended = done;
      spare = chunk.buffer;
      const at = received;
      received += chunk.length;
      if (received > maxBytes) {
        source.abandon();
        return "too large";
      }
      if (received > keepBytes) {
        dropped = true;
        kept = new Uint8Array();
        claims.dispose();
      }
      if (dropped || chunk.length === 0) continue;
      if (place === undefined) {
        if (done) return new Body(chunk);
        place = claims.use(await memory.place(mostBytes));
        kept = new Uint8Array(mostBytes);
      }
      kept.set(chunk, at);
    }
    if (dropped) return "dropped";
    await place?.complete(received);
    return new Body(kept.subarray(0, received), claims.move());
  }

  /** Of a small body no pace is asked: it has its time, and comes faster by Deno's own way. */
  async #readSmall(request: Request): Promise<Body> {
    const arrived = request.bytes().catch(() => {
      throw new BodyLost();
    });
    const bytes = await within(this.#ms, arrived, undefined);
    if (bytes !== undefined) return new Body(bytes);
    giveUpBody(request);
    throw new BodyLost(`The body did not come within ${this.#ms / 1000} s.`);
  }
}

function hookTooLarge(): PlainRefusal {
  return new PlainRefusal(400, "the body exceeds 64 KiB");
}

/** A whole body; disposed of once nothing is kept of it, or of what was made of it. */
export class Body implements Disposable {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #place: Disposable | undefined;

  /** A body, and what its place in the memory is left by. */
  constructor(bytes: Uint8Array<ArrayBuffer>, place?: Disposable) {
    this.#bytes = bytes;
    this.#place = place;
  }

  /** What `decode` makes of its bytes, which are gone then. */
  decoded<T>(decode: (bytes: Uint8Array) => T): T {
    try {
      return decode(this.#bytes);
    } finally {
      // Freed now, and not when they are collected: what was made of them is still to be used.
      if (this.#place !== undefined) this.#bytes.buffer.transfer(0);
    }
  }

  /** Leaves the place. */
  [Symbol.dispose](): void {
    this.#place?.[Symbol.dispose]();
  }
}
