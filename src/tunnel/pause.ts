/** States of a WebSocket. */
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

/** The loop in which Deno reads a server's WebSocket. It dispatches a message as soon as it has one. */
export interface ReadLoop {
  /** Ends the loop behind the message that is being dispatched; only its handler may call this. */
  pause(): void;
  /** Begins the loop anew. */
  resume(): void;
  /** Behind a `close` of ours: what the client still sends is dispatched, until its answer. */
  readOn(): void;
  /** The next thing that comes, whatever it is, closes the socket; a paused loop has to be resumed for it. */
  letGo(): void;
}

/**
 * Deno's WebSocket reads as fast as the client sends and cannot be told to wait: a guest that takes nothing would cost
 * memory without a bound. Its loop looks at the socket's `[[readyState]]` after every message, and `[[eventLoop]]`
 * begins it. Neither is public, so both are found by their descriptions; undefined where one of them is not what it is
 * taken for.
 *
 * @see docs/deno-internals.md
 */
export function findReadLoop(socket: WebSocket): ReadLoop | undefined {
  const state = symbolOf(socket, "[[readyState]]");
  const loop = symbolOf(Object.getPrototypeOf(socket), "[[eventLoop]]");
  if (state === undefined || loop === undefined) return undefined;
  const begin: unknown = Reflect.get(socket, loop);
  if (typeof begin !== "function" || Reflect.get(socket, state) !== socket.readyState) {
    return undefined;
  }
  const set = (value: number): boolean => Reflect.set(socket, state, value);
  return {
    pause(): void {
      if (socket.readyState !== OPEN) return;
      set(CLOSED);
      // The loop has ended before any microtask runs, and nobody else sees the socket closed.
      queueMicrotask(() => set(OPEN));
    },
    resume: () => begin.call(socket),
    readOn(): void {
      if (socket.readyState === CLOSING) set(OPEN);
    },
    letGo(): void {
      if (socket.readyState === OPEN) set(CLOSING);
    },
  };
}

function symbolOf(holder: object, description: string): symbol | undefined {
  return Object.getOwnPropertySymbols(holder).find((symbol) => symbol.description === description);
}
