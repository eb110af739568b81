/**
 * Archives written block by block, for what no proper writer would write: lying sizes, names that lead out, broken
 * checksums, headers without members.
 */

import { concat } from "./bytes.ts";

const BLOCK = 512;
const encoder = new TextEncoder();

/** A member as its header is to say it. */
export interface MemberSpec {
  /** Name, a string or raw bytes; cut at 100 bytes. */
  readonly name: string | Uint8Array;
  /** Type flag: `0` file, `1` hard link, `2` symlink, `5` directory, `x` extended header, … */
  readonly type?: string;
  /** What follows the header, padded. */
  readonly content?: string | Uint8Array;
  readonly link?: string | Uint8Array;
  readonly mode?: number;
  /** Seconds since the epoch. */
  readonly mtime?: number;
  /** The size field as raw bytes, whatever follows; without it the content's length in octal. */
  readonly size?: Uint8Array | string;
  /** Changes the finished header. */
  readonly spoil?: (header: Uint8Array) => void;
}

export function member(spec: MemberSpec): Uint8Array<ArrayBuffer> {
  const content = bytesOf(spec.content ?? "");
  const header = new Uint8Array(BLOCK);
  const put = (at: number, value: string | Uint8Array, room: number): void =>
    header.set(bytesOf(value).subarray(0, room), at);
  put(0, spec.name, 100);
  put(100, octal(spec.mode ?? 0o644, 8), 8);
  put(108, octal(0, 8), 8);
  put(116, octal(0, 8), 8);
  put(124, spec.size ?? octal(content.length, 12), 12);
  put(136, octal(spec.mtime ?? 1_700_000_000, 12), 12);
  put(156, spec.type ?? "0", 1);
  put(157, spec.link ?? "", 100);
  put(257, "ustar\x0000", 8);
  sign(header);
  spec.spoil?.(header);
  return concat([header, content, new Uint8Array(-content.length & (BLOCK - 1))]);
}

/** Computes the checksum of a header again, after it was changed. */
export function sign(header: Uint8Array): void {
  header.fill(0x20, 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.set(encoder.encode(`${sum.toString(8).padStart(6, "0")}\0 `), 148);
}

/** An extended header with records, and the member that it is for. */
export function extended(
  records: Readonly<Record<string, string | Uint8Array>>,
  spec: MemberSpec,
  type = "x",
): Uint8Array<ArrayBuffer> {
  const content = concat(Object.entries(records).map(([key, value]) => record(key, value)));
  return concat([member({ name: "PaxHeader/x", type, content }), member(spec)]);
}

/** One record of an extended header, whose length counts itself. */
export function record(key: string, value: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const rest = concat([encoder.encode(` ${key}=`), bytesOf(value), encoder.encode("\n")]);
  let length = rest.length;
  while (String(length).length + rest.length !== length) {
    length = String(length).length + rest.length;
  }
  return concat([encoder.encode(String(length)), rest]);
}

/** Members with the end marker, of two zero blocks unless told otherwise. */
export function archive(
  parts: readonly (MemberSpec | Uint8Array)[],
  zeroBlocks = 2,
): Uint8Array<ArrayBuffer> {
  const members = parts.map((part) => (part instanceof Uint8Array ? part : member(part)));
  return concat([...members, new Uint8Array(zeroBlocks * BLOCK)]);
}

/** A number as a header's octal field. */
export function octal(value: number, width: number): string {
  return value.toString(8).padStart(width - 1, "0") + "\0";
}

/** A number as a header's base-256 field of twelve bytes. */
export function base256(value: bigint): Uint8Array {
  const field = new Uint8Array(12);
  let rest = BigInt.asUintN(96, value);
  for (let at = 11; at >= 0; at--, rest >>= 8n) field[at] = Number(rest & 0xffn);
  field[0] = (field[0] ?? 0) | 0x80;
  return field;
}

function bytesOf(value: string | Uint8Array): Uint8Array {
  return typeof value === "string" ? encoder.encode(value) : value;
}
