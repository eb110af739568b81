const SPACE = /[ \t\n\r]+/y;
const SCALAR = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/** A part of a string: a pattern for all of it would need memory for each of its characters. */
const PART = /(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})){1,1000}/y;

/**
 * Index in `text` of the first character that cannot stand there in JSON, or where the word, number or escape begins that
 * is none; the length of a text that ends too early. This is for texts that JSON.parse refused, which tells the place of
 * some faults only, and quotes the text with the others.
 */
export function faultOf(text: string): number {
  const closers: string[] = [];
  let expected: "value" | "name" | "colon" | "more" = "value";
  let at = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  for (;;) {
    if (text.charCodeAt(at) <= 0x20) skip(SPACE);
    const char = text[at];
    if (expected === "more") {
      const closer = closers.at(-1);
      if (closer === undefined || (char !== closer && char !== ",")) return at;
      if (char === closer) closers.pop();
      else expected = closer === "}" ? "name" : "value";
      at++;
    } else if (expected === "colon") {
      if (char !== ":") return at;
      expected = "value";
      at++;
    } else if (char === '"') {
      at++;
      while (skip(PART));
      if (text[at] !== '"') return at;
      expected = expected === "name" ? "colon" : "more";
      at++;
    } else if (expected === "value" && (char === "[" || char === "{")) {
      const closer = char === "[" ? "]" : "}";
      at++;
      skip(SPACE);
      expected = char === "[" ? "value" : "name";
      closers.push(closer);
      if (text[at] === closer) expected = "more";
    } else if (expected === "value" && skip(SCALAR)) expected = "more";
    else return at;
  }
}
