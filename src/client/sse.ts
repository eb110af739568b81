/** Server-Sent Events of a command's stream, decoded with all their digits. */

import type { ExitEvent, GapEvent, OutputEvent, StreamKind } from "../contract/stream.ts";
import { fromBase64 } from "./bytes.ts";
import { ProtocolViolation } from "./errors.ts";

/** A chunk of output. */
export interface Output {
  /** Kind of event. */
  readonly event: "output";
  /** Offset of its first byte, in the one space of offsets that both streams share. */
  readonly offset: bigint;
  /** Which of the child's streams it came from. */
  readonly stream: StreamKind;
  /** Its bytes. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes [from, to) are gone: nobody read them in time. */
export interface Gap {
  /** Kind of event. */
  readonly event: "gap";
  /** First byte that is gone. */
  readonly from: bigint;
  /** First byte that is not. */
  readonly to: bigint;
}

/** How the command ended; always the last event. */
export interface Exit extends Omit<ExitEvent, "offset"> {
  /** Kind of event. */
  readonly event: "exit";
  /** Bytes that it wrote in all. */
  readonly offset: bigint;
}

/** An event of a command's stream. */
export type ExecEvent = Output | Gap | Exit;

/** Longest event that is taken, in characters: many times what a guest sends. */
const MAX_EVENT_CHARS = 16 * 1024 * 1024;

/** How a guest begins an event of output, up to its base64, and ends it. */
const OUTPUT_HEAD =
  /^event: output\ndata: \{"offset":(\d{1,15}),"stream":"(stdout|stderr)","output":"/;
const OUTPUT_END = '"}';
/** Longer than any such beginning. */
const HEAD_CHARS = 96;

/**
 * Cuts bytes into frames: any pieces go in, the texts of whole frames come out, without the empty line that ends each.
 * Invariant: `#rest` is what no frame was made of yet. Texts are searched and cut many times faster than bytes.
 */
export class FrameParser {
  readonly #decoder = new TextDecoder();
  #rest = "";

  /** Whether everything that came belongs to a whole frame. */
  get between(): boolean {
    return this.#rest === "";
  }

  /** The frames that these bytes complete; throws {@link ProtocolViolation} for one without an end. */
  *push(piece: Uint8Array): Generator<string, void, void> {
    // The empty line that ends a frame may have begun with the last piece.
    const searched = Math.max(this.#rest.length - 1, 0);
    const text = this.#rest + this.#decoder.decode(piece, { stream: true });
    let start = 0;
    for (;;) {
      const at = text.indexOf("\n\n", Math.max(start, searched));
      if (at === -1) break;
      const frame = text.slice(start, at);
      start = at + 2;
      yield frame;
    }
    this.#rest = text.slice(start);
    if (this.#rest.length > MAX_EVENT_CHARS) {
      throw new ProtocolViolation(`Cannot read an event: it is longer than ${MAX_EVENT_CHARS}`);
    }
  }
}

/** The event that a frame is; undefined for comments. Throws {@link ProtocolViolation} for what is neither. */
export function decodeFrame(frame: string): ExecEvent | undefined {
  return quickOutput(frame) ?? decodeEvent(frame);
}

/**
 * The event of output that a frame is, where it is written as guests write it: then its megabytes need not go through a
 * parser of JSON. Undefined for everything else.
 */
function quickOutput(frame: string): Output | undefined {
  const head = OUTPUT_HEAD.exec(frame.slice(0, HEAD_CHARS));
  if (head === null) return undefined;
  const [begin, offset = "", stream] = head;
  const end = frame.length - OUTPUT_END.length;
  if (frame.indexOf('"', begin.length) !== end) return undefined;
  try {
    const bytes = fromBase64(frame.slice(begin.length, end));
    return { event: "output", offset: BigInt(offset), stream: stream as StreamKind, bytes };
  } catch {
    // It is no base64, of which the other way makes an error of this library's.
    return undefined;
  }
}

/** Name and data of a frame; both are empty for comments. */
export function fieldsOf(frame: string): { readonly name: string; readonly data: string } {
  let name = "";
  let data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line !== "" && !line.startsWith(":")) {
      throw new ProtocolViolation("Cannot read an event: it has a line of another kind");
    }
  }
  return { name, data };
}

function decodeEvent(frame: string): ExecEvent | undefined {
  const { name, data } = fieldsOf(frame);
  if (name === "" && data === "") return undefined;
  try {
    return decodeData(name, data);
  } catch (cause) {
    throw new ProtocolViolation(`Cannot read an event named '${name}'`, { cause });
  }
}

function decodeData(event: string, data: string): ExecEvent {
  const parsed: unknown = JSON.parse(data);
  if (event === "output") {
    const { offset, stream, output } = parsed as OutputEvent;
    return { event, offset: exact(offset, "offset", data), stream, bytes: fromBase64(output) };
  }
  if (event === "gap") {
    const { from, to } = parsed as GapEvent;
    return { event, from: exact(from, "from", data), to: exact(to, "to", data) };
  }
  if (event !== "exit") throw new Error("Cannot decode it: the protocol has no such event");
  const { exit_code, signal, truncated, writers_may_be_alive, offset } = parsed as ExitEvent;
  return {
    event,
    exit_code,
    signal,
    truncated,
    writers_may_be_alive,
    offset: exact(offset, "offset", data),
  };
}

/** A uint64 with all its digits: those of the text where a number would be rounded. */
function exact(value: number | bigint, name: string, data: string): bigint {
  if (Number.isSafeInteger(value)) return BigInt(value);
  const digits = new RegExp(`"${name}":(\\d+)`).exec(data)?.[1];
  if (digits === undefined) throw new Error(`Cannot decode it: ${name} is no integer`);
  return BigInt(digits);
}
