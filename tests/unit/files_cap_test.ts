import { deepStrictEqual, notStrictEqual } from "node:assert/strict";
import { readSource, sourceFiles } from "../support/source_files.ts";

const MOST_LINES = 400;

const FILES = [
  "build.sh",
  ...sourceFiles("src", ".ts"),
  ...sourceFiles("tests", ".ts"),
  ...sourceFiles("scripts", ".ts", ".sh"),
  ...sourceFiles("image", ".sh"),
  ...sourceFiles("native", ".rs"),
];

const lineCount = (text: string): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0);

Deno.test(`no file has more than ${MOST_LINES} lines`, () => {
  notStrictEqual(FILES.length, 1);
  deepStrictEqual(FILES.filter((path) => lineCount(readSource(path)) > MOST_LINES), []);
});

Deno.test("file names are snake_case, and none is called utils", () => {
  const odd = FILES.filter((path) => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    return !/^[a-z0-9_]+\.(ts|rs|sh)$/.test(name) || /^(utils?|helpers?|misc|common)\./.test(name);
  });
  deepStrictEqual(odd, []);
});
