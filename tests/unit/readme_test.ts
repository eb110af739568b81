import { deepStrictEqual } from "node:assert/strict";
import { LIMIT_SETTINGS, SETTINGS } from "../../src/settings.ts";
import { readSource } from "../support/source_files.ts";

Deno.test("the README's tables give each setting with its default", () => {
  const documented = Array.from(
    readSource("README.md").matchAll(/^\| `(GUESTD_\w+)` \| (?:`([^`]+)`)? ?\|/gm),
    ([, variable = "", fallback = ""]) => `${variable}=${fallback}`,
  );
  const settings = [...Object.values(SETTINGS), ...Object.values(LIMIT_SETTINGS)];
  deepStrictEqual(documented, settings.map(({ variable, fallback }) => `${variable}=${fallback}`));
});
