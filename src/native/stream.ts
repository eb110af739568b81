import type { Core } from "./core.ts";
import type { NativeExec } from "./exec.ts";
import { checked } from "./errno.ts";
import { EventKind } from "./wake.ts";

/** A record of the stream; `bytes` is valid until any reader's next call of `next`. */
export type StreamRecord =
  | { readonly kind: "stdout" | "stderr"; readonly offset: bigint; readonly bytes: Uint8Array }
  | { readonly kind: "gap"; readonly from: bigint; readonly to: bigint }
  | { readonly kind: "end" };

const HEAD_BYTES = 24;

/** Kinds of records: `guestd_stream_next` in `native/src/exports/stream.rs`. */
const KINDS = ["stdout", "stderr", "gap", "end"] as const;

/** A reader of an exec's stream at its own cursor. It costs nothing while it does not read. */
export class StreamReader implements Disposable {
  readonly #core: Core;
  readonly #id: number;
  #wakened: (() => void) | undefined;
  #readable = false;

  /** Attaches at `offset`. */
  constructor(core: Core, exec: NativeExec, offset: bigint) {
    this.#core = core;
    this.#id = checked("attach to a stream", core.symbols.guestd_stream_open(exec.id, offset));
    core.wake.listen(EventKind.readable, this.#id, () => {
      this.#readable = true;
      this.#wakened?.();
    });
  }

  /** The records that are there now; none if there is nothing to read yet. */
  next(): StreamRecord[] {
    this.#readable = false;
    const { symbols, records: buffer } = this.#core;
    const used = checked(
      "read a stream",
      symbols.guestd_stream_next(this.#id, buffer, buffer.length),
    );
    const view = new DataView(buffer.buffer);
    const records: StreamRecord[] = [];
    for (let at = 0; at < used;) {
      const kind = KINDS[view.getUint32(at, true)];
      const length = view.getUint32(at + 4, true);
      const first = view.getBigUint64(at + 8, true);
      const body = at + HEAD_BYTES;
      at = body + Math.ceil(length / 8) * 8;
      if (kind === "gap") {
        records.push({ kind, from: first, to: view.getBigUint64(body - 8, true) });
      } else if (kind === "stdout" || kind === "stderr") {
        records.push({ kind, offset: first, bytes: buffer.subarray(body, body + length) });
      } else records.push({ kind: "end" });
    }
    return records;
  }

  /** Calls `wakened` as soon as there is something to read, once: now, if there is already. */
  whenReadable(wakened: () => void): void {
    this.#wakened = () => {
      this.#wakened = undefined;
      wakened();
    };
    if (this.#readable) this.#wakened();
  }

  /** Detaches. */
  [Symbol.dispose](): void {
    this.#core.wake.ignore(EventKind.readable, this.#id);
    this.#wakened = undefined;
    this.#core.symbols.guestd_stream_close(this.#id);
  }
}
