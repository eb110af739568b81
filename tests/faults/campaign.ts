/** One failure after the other, and what came of each. */

import { House } from "./house.ts";
import { isRefusal, type Part, PARTS } from "./parts.ts";
import { childInjections, type Injection, injections, isPossible, random } from "./plan.ts";
import { Strace } from "./strace.ts";

/** `unharmed`: all was as without it; `refused`: an honest answer; `fault`: anything else; `missed`: the call was not made. */
export type Verdict = "unharmed" | "refused" | "fault" | "aborted" | "missed";

export interface Result extends Injection {
  readonly verdict: Verdict;
  /** What was seen, for people. */
  readonly detail: string;
}

/** Runs injections against a daemon, which is replaced where one has harmed it. */
export class Campaign implements AsyncDisposable {
  readonly #draw: () => number;
  #house: House | undefined;

  constructor(seed: number) {
    this.#draw = random(seed);
  }

  /** Runs each part once, and lists what can be made to fail of what it calls. */
  async plan(parts: readonly Part[]): Promise<Injection[]> {
    const all: Injection[] = [];
    for (const part of parts) {
      const house = await this.#at(part);
      const threads = house.threads();
      const strace = await Strace.attach({ tids: [...threads.keys()], expressions: ["trace=all"] });
      await house.run(part);
      const seen = await strace.detach();
      all.push(...injections(part, seen, (tid) => threads.get(tid), this.#draw));
      if (part === "command") all.push(...childInjections(part));
    }
    return all;
  }

  /** In a random order. */
  shuffled<T>(items: readonly T[]): T[] {
    return items.map((item) => [this.#draw(), item] as const).sort(([a], [b]) => a - b).map(([, item]) => item);
  }

  async inject(injection: Injection): Promise<Result> {
    const { part, thread, call, errno, nth } = injection;
    const house = await this.#at(part);
    const threads = [...house.threads()];
    const follow = thread === "child";
    const tids = follow ? [house.daemon.pid] : threads.filter(([, name]) => name === thread).map(([tid]) => tid);
    const expressions = [`trace=${call}`, `inject=${call}:error=${errno}:when=${nth}`];
    const lines = house.daemon.log.lines.length;
    let [verdict, detail]: [Verdict, string] = ["unharmed", ""];
    const failed = (error: unknown): void => {
      [verdict, detail] = isRefusal(error) ? ["refused", message(error)] : ["fault", message(error)];
    };
    const strace = await Strace.attach({ tids, follow, expressions });
    await house.run(part).catch(failed);
    const injected = (await strace.detach()).filter((one) => one.injected);
    try {
      if (verdict !== "unharmed") await house.tidy();
      await house.settled();
    } catch (error) {
      failed(error);
      verdict = "fault";
    }
    const raw = house.daemon.log.lines.slice(lines).filter(({ level }) => level === "raw");
    if (raw.length > 0) {
      verdict = "aborted";
      detail = raw.map(({ msg }) => msg).join(" / ").slice(0, 400);
    }
    if (injected.length === 0 || !injected.every(isPossible)) verdict = "missed";
    if (verdict === "fault" || verdict === "aborted" || (verdict === "missed" && detail !== "")) await this.#replace();
    return { ...injection, verdict, detail };
  }

  async #at(part: Part): Promise<House> {
    if (this.#house === undefined) {
      this.#house = await House.open();
      for (const each of Object.keys(PARTS) as Part[]) if (each !== "spool") await this.#house.run(each);
      await this.#house.remember();
    }
    // A thread that was idle for too long has ended: whoever is to be traced must be there.
    await this.#house.run(part);
    return this.#house;
  }

  async #replace(): Promise<void> {
    const house = this.#house;
    this.#house = undefined;
    house?.daemon.signal("SIGKILL");
    await house?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#house?.[Symbol.asyncDispose]();
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
