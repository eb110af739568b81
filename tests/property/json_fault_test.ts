import { match, strictEqual, throws } from "node:assert/strict";
import fc from "fast-check";
import { faultOf } from "../../src/contract/json_fault.ts";
import { parseJsonText } from "../../src/contract/json.ts";
import { runs } from "../support/property.ts";

/** Where V8 sees the fault, or the character that it does not expect there; undefined for JSON. */
function seenByV8(text: string): number | string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    if (message === "Unexpected end of JSON input") return text.length;
    const at = / at position (\d+) \(line \d+ column \d+\)$/.exec(message)?.[1];
    return at === undefined ? /^Unexpected token '(.)',/su.exec(message)?.[1] : Number(at);
  }
}

Deno.test("the place of a fault in JSON is where V8 sees it, where it tells one", () => {
  const piece = fc.constantFrom(...'{}[],:"\\-1.eE \n\t\0é', "true", '"k":', "\\u12", "\\n", "");
  const text = fc.tuple(fc.json(), fc.nat(), fc.nat(3), piece).map(([json, at, cut, put]) => {
    const start = at % (json.length + 1);
    return json.slice(0, start) + put + json.slice(start + cut);
  });
  let faults = 0;
  fc.assert(
    fc.property(text, (text) => {
      const seen = seenByV8(text);
      if (seen === undefined) return;
      faults++;
      const fault = faultOf(text);
      // Of an escape, a number or a word V8 names the first wrong character, faultOf where it begins.
      const at = typeof seen === "number" ? seen : text.indexOf(seen, fault);
      match(text.slice(fault, at), /^(?:\\u?[0-9A-Fa-f]*|-?[0-9.]*[eE]?[+-]?|[a-z]*)$/);
      throws(
        () => parseJsonText(text, "it"),
        { message: text === "" ? "it is empty" : `it is not valid JSON at position ${fault}` },
      );
    }),
    runs(2000),
  );
  strictEqual(faults > 0, true);
});
