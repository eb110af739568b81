/** A reader of pax archives, strict enough to notice what other readers would forgive. */

import { asLatin1 } from "./bytes.ts";

export interface ListedMember {
  readonly name: string;
  readonly type: string;
  readonly link: string;
  readonly mode: number;
  readonly uid: number;
  readonly owner: string;
  readonly mtime: number;
  readonly content: Uint8Array;
}

const field = (block: Uint8Array, at: number, length: number): string =>
  asLatin1(block.subarray(at, at + length)).replace(/\0.*$/s, "");

/** All members; throws on a broken checksum, magic or end. Names are UTF-8 where an extended header gives them. */
export function listTar(bytes: Uint8Array): ListedMember[] {
  const members: ListedMember[] = [];
  let records = new Map<string, string>();
  for (let at = 0;;) {
    const block = bytes.subarray(at, at + 512);
    if (block.length < 512) throw new Error(`Cannot list: no end marker at ${at}`);
    if (block.every((byte) => byte === 0)) {
      if (bytes.length !== at + 1024) throw new Error(`Cannot list: the end is at ${at}`);
      return members;
    }
    const sum = block.reduce(
      (total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte),
      0,
    );
    if (parseInt(field(block, 148, 8), 8) !== sum) {
      throw new Error(`Cannot list: checksum at ${at}`);
    }
    if (asLatin1(block.subarray(257, 265)) !== "ustar\x0000") {
      throw new Error(`Cannot list: magic at ${at}`);
    }
    const type = asLatin1(block.subarray(156, 157));
    const size = Number(records.get("size") ?? parseInt(field(block, 124, 12), 8));
    const content = bytes.subarray(at + 512, at + 512 + size);
    at += 512 + Math.ceil(size / 512) * 512;
    if (type === "x") {
      records = recordsOf(content);
      continue;
    }
    members.push({
      name: records.get("path") ?? field(block, 0, 100),
      type,
      link: records.get("linkpath") ?? field(block, 157, 100),
      mode: parseInt(field(block, 100, 8), 8),
      uid: Number(records.get("uid") ?? parseInt(field(block, 108, 8), 8)),
      owner: field(block, 265, 32),
      mtime: Number(records.get("mtime") ?? parseInt(field(block, 136, 12), 8)),
      content,
    });
    records = new Map();
  }
}

function recordsOf(content: Uint8Array): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < content.length;) {
    const length = parseInt(asLatin1(content.subarray(at, at + 10)), 10);
    const text = new TextDecoder().decode(content.subarray(at, at + length));
    const match = /^[0-9]+ ([^=]+)=(.*)\n$/s.exec(text);
    if (match === null) throw new Error(`Cannot list: a record at ${at}`);
    records.set(match[1] ?? "", match[2] ?? "");
    at += length;
  }
  return records;
}
