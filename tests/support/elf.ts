/**
 * Reads the dynamic symbol table of a 64-bit little-endian ELF file: enough to see what a shared library exports.
 *
 * @module
 */

const SYMTAB = 2;
const DYNSYM = 11;
const SYMBOL_SIZE = 24;

/** Names of the functions that the library defines and exports. Throws for what is no such file. */
export function exportedFunctions(file: Uint8Array): string[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  // 7f 'E' 'L' 'F', 64 bit, little-endian.
  if (view.getUint32(0) !== 0x7f454c46 || view.getUint16(4) !== 0x0201) {
    throw new Error("Cannot read the library: not a 64-bit little-endian ELF file");
  }
  const sections = sectionHeaders(view);
  const table = sections.find(({ type }) => type === DYNSYM);
  const strings = sections[table?.link ?? -1];
  if (table === undefined || strings === undefined) {
    throw new Error("Cannot read the library: no dynamic symbols");
  }
  const names: string[] = [];
  for (let at = table.offset; at < table.offset + table.size; at += SYMBOL_SIZE) {
    const info = view.getUint8(at + 4);
    const [isFunction, isGlobal] = [(info & 0xf) === 2, info >> 4 === 1];
    const isDefined = view.getUint16(at + 6, true) !== 0;
    if (!isFunction || !isGlobal || !isDefined) continue;
    const start = strings.offset + view.getUint32(at, true);
    names.push(new TextDecoder().decode(file.subarray(start, file.indexOf(0, start))));
  }
  return names.sort();
}

/** Where the library's one symbol whose name holds `part` lies in memory, from the library's beginning on. */
export function localSymbol(file: Uint8Array, part: string): number {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const sections = sectionHeaders(view);
  const table = sections.find(({ type }) => type === SYMTAB);
  const strings = sections[table?.link ?? -1];
  if (table === undefined || strings === undefined) {
    throw new Error("Cannot read the library: no symbols");
  }
  const found: number[] = [];
  for (let at = table.offset; at < table.offset + table.size; at += SYMBOL_SIZE) {
    const start = strings.offset + view.getUint32(at, true);
    const name = new TextDecoder().decode(file.subarray(start, file.indexOf(0, start)));
    if (name.includes(part)) found.push(Number(view.getBigUint64(at + 8, true)));
  }
  const [address] = found;
  if (address === undefined || found.length > 1) throw new Error(`Cannot find one symbol ${part}`);
  return address;
}

interface Section {
  readonly type: number;
  readonly offset: number;
  readonly size: number;
  /** For a symbol table: the section that holds its names. */
  readonly link: number;
}

function sectionHeaders(view: DataView): Section[] {
  const start = Number(view.getBigUint64(0x28, true));
  const [entrySize, count] = [view.getUint16(0x3a, true), view.getUint16(0x3c, true)];
  return Array.from({ length: count }, (_, index) => {
    const at = start + index * entrySize;
    return {
      type: view.getUint32(at + 4, true),
      offset: Number(view.getBigUint64(at + 24, true)),
      size: Number(view.getBigUint64(at + 32, true)),
      link: view.getUint32(at + 40, true),
    };
  });
}
