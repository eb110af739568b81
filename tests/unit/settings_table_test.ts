import { strictEqual } from "node:assert/strict";
import { allSettings } from "../../src/settings.ts";
import { readSource } from "../support/source_files.ts";

/** Where the settings are documented: what stands there comes from here, failure messages included. */
const DOCUMENT = "docs/configuration.md";

Deno.test("the documented tables are the table of settings, to the letter", () => {
  const rows = readSource(DOCUMENT).match(/^\| `GUESTD_\w+` \|.*$/gm) ?? [];
  const wanted = allSettings().map(({ variable, fallback, purpose }) =>
    `| \`${variable}\` | ${fallback && `\`${fallback}\``} | ${purpose.replace(/\.$/, "")} |`
  );
  strictEqual(rows.join("\n"), wanted.join("\n"));
});
