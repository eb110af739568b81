import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { BodyMemory, type BodyPlace } from "../../src/http/body_memory.ts";
import { within } from "../support/await_event.ts";

const MIB = 1024 * 1024;

/** Everything that need not wait for anything has happened. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

/** A memory of 10 MiB, and who was let in, by name. */
class House {
  readonly memory: BodyMemory;
  readonly inside: string[] = [];
  collected = 0;

  constructor() {
    const [bytes, collectBytes] = [10 * MIB, 8 * MIB];
    this.memory = new BodyMemory({ bytes, collectBytes, collect: () => void this.collected++ });
  }

  /** Asks for a place; ends when it is had. */
  async place(name: string, most: number): Promise<BodyPlace> {
    const place = await within(`the turn of ${name}`, this.memory.place(most));
    this.inside.push(name);
    return place;
  }
}

Deno.test("bodies for which there is room come in at once, the others in their order, and none overtakes", async () => {
  const house = new House();
  const [a, b] = [await house.place("a", 4 * MIB), await house.place("b", 6 * MIB)];
  const [third, fourth] = [house.place("c", 6 * MIB), house.place("d", MIB)];
  // Room for the fourth alone.
  a[Symbol.dispose]();
  await settled();
  deepStrictEqual(house.inside, ["a", "b"]);
  b[Symbol.dispose]();
  await Promise.all([third, fourth]);
  deepStrictEqual(house.inside, ["a", "b", "c", "d"]);
});

Deno.test("a body that is complete holds what came and no more, until it was used", async () => {
  const house = new House();
  const a = await house.place("a", 10 * MIB);
  const second = house.place("b", 9 * MIB);
  await a.complete(MIB);
  await second;
  const third = house.place("c", 1);
  await settled();
  deepStrictEqual(house.inside, ["a", "b"]);
  a[Symbol.dispose]();
  await third;
});

Deno.test("what large bodies left behind is collected before the next one is used", async () => {
  const house = new House();
  for (const name of ["a", "b", "c"]) {
    using place = await house.place(name, 3 * MIB);
    await place.complete(3 * MIB);
  }
  strictEqual(house.collected, 0);
  for (const name of ["d", "e"]) {
    using place = await house.place(name, MIB);
    await place.complete(MIB);
    strictEqual(house.collected, 1);
  }
});
