/** bootstrap: the run hook, for a guest whose platform you are. */

import { Identity } from "../client/mod.ts";
import { type Common, guestOf, printJson, tokenOf } from "./connection.ts";
import { EXIT, Failure } from "./failure.ts";
import { variables } from "./run.ts";

/** Gives the guest its token, and prints that where it is a new one. */
export async function bootstrap(
  options: Common & { readonly env?: readonly string[]; readonly identity?: string },
): Promise<number> {
  const given = tokenOf(options);
  const token = given ?? crypto.randomUUID();
  const identity = options.identity === undefined ? undefined : Identity.generate();
  const env = variables(options.env ?? []);
  // Before the guest has them: keys that cannot be kept would be lost.
  if (identity !== undefined) store(options.identity ?? "", identity);
  await guestOf(options).hooks.run({ token, env, ...(identity === undefined ? {} : { identity }) });
  if (options.json) printJson({ token });
  else if (given === undefined) console.log(token);
  return EXIT.ok;
}

function store(file: string, identity: Identity): void {
  try {
    Deno.writeTextFileSync(file, `${JSON.stringify(identity)}\n`, { mode: 0o600, createNew: true });
  } catch (error) {
    throw new Failure(`Cannot store the identity: ${(error as Error).message}`);
  }
}
