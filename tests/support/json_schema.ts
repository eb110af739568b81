/**
 * What the JSON Schemas that the daemon publishes say of values. A keyword that JSON Schema does not have is an error,
 * so that none is passed over in silence.
 */

import { Ajv2020 } from "ajv/dist/2020.js";

export type JsonSchema = Readonly<Record<string, unknown>>;

/** A set of definitions, by which `$ref` finds its schema. */
export class Definitions {
  readonly #ajv: Ajv2020;

  /** Takes what `#/$defs/` leads to. */
  constructor($defs: Readonly<Record<string, JsonSchema>>) {
    // The formats that are published name widths of integers, which the bounds beside them say too.
    const options = { allErrors: true, strictTypes: false, validateFormats: false } as const;
    this.#ajv = new Ajv2020({ ...options, validateSchema: false, meta: false });
    this.#ajv.addSchema({ $id: "document", $defs });
  }

  /** What of `value` the schema does not allow, in words; empty when it fits. */
  violations(schema: JsonSchema, value: unknown): string {
    const { $ref } = schema;
    const found = typeof $ref === "string" ? `document${$ref}` : schema;
    return this.#ajv.validate(found, value) ? "" : this.#ajv.errorsText();
  }
}
