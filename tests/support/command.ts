/** Programs that tests run to their end. */

/** How one ended. */
export interface Ended {
  readonly code: number;
  /** Its stdout, without white space at the end. */
  readonly out: string;
  readonly said: string;
}

/** Runs a program with nothing on its stdin; it ends with SIGTERM where `signal` says so. */
export async function command(
  program: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd" | "env" | "signal"> = {},
): Promise<Ended> {
  const started = new Deno.Command(program, { ...options, args: [...args], stdin: "null" });
  return endedOf(await started.output());
}

/** What a program prints, without white space at the end; throws unless it ends with 0. */
export function output(program: string, ...args: readonly string[]): string {
  const { code, out, said } = endedOf(new Deno.Command(program, { args: [...args] }).outputSync());
  if (code !== 0) throw new Error(`Cannot run ${program}: ${said}`);
  return out;
}

function endedOf({ code, stdout, stderr }: Deno.CommandOutput): Ended {
  const [out = "", said = ""] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, out: out.trimEnd(), said };
}
