import { decodeBase64, parseJson, parseJsonText } from "./json.ts";
import { BODY, dictionary, object, orNull, withDefault } from "./object.ts";
import { Mismatch, text } from "./schema.ts";

/** The platform's lifecycle hooks, in the order of the protocol. */
export const HOOK_NAMES = ["ready", "validate", "run", "suspend", "resume", "terminate"] as const;

/** One of the lifecycle hooks. */
export type HookName = (typeof HOOK_NAMES)[number];

/** Body of the run hook. A missing or null payload is refused with 400. */
export class RunHookEnvelope extends object({
  /** A string that itself holds a JSON object, a RunHook. */
  runHookPayload: orNull(text()),
}) {}

/** Payload of the run hook. Unknown keys are ignored. The platform allows 4096 bytes of UTF-8. */
export class RunHook extends object({
  /** The per-VM bearer token; installed once. */
  agent_token: text({ nonEmpty: true }),
  /** Base environment of every later exec. A name that no environment can hold is dropped. */
  env: withDefault(dictionary(text()), new Map(), {}),
  /** This VM's X25519 secret: 32 bytes as padded base64, not all zero; goes with the other identity key. */
  identity_seed: orNull(text()),
  /** The client's X25519 public key: 32 bytes as padded base64, not all zero; goes with the other identity key. */
  identity_host_public_key: orNull(text()),
}) {}

/** Both halves of the tunnel's identity, 32 bytes each. */
export interface Identity {
  /** This VM's X25519 secret. */
  readonly seed: Uint8Array<ArrayBuffer>;
  /** The client's X25519 public key. */
  readonly hostPublicKey: Uint8Array<ArrayBuffer>;
}

/** A decoded run hook. */
export interface DecodedRunHook {
  /** The token, not empty. */
  readonly token: string;
  /** The base environment as it was sent. */
  readonly env: ReadonlyMap<string, string>;
  /** The identity, when one was sent. */
  readonly identity: Identity | null;
}

/** Decodes the body of the run hook; throws a {@link Mismatch} that quotes no value. */
export function decodeRunHook(bytes: Uint8Array): DecodedRunHook {
  const envelope = RunHookEnvelope.decode(parseJson(bytes, BODY), BODY);
  if (envelope.runHookPayload === null) throw new Mismatch("runHookPayload is missing");
  const payload = parseJsonText(envelope.runHookPayload, "runHookPayload");
  const { agent_token, env, ...keys } = RunHook.decode(payload, "runHookPayload");
  if (!isPresentable(agent_token)) {
    throw new Mismatch("agent_token must be a string that an Authorization header can carry");
  }
  const identity = decodeIdentity(keys.identity_seed, keys.identity_host_public_key);
  return { token: agent_token, env, identity };
}

/**
 * Whether a request can present the token: a header loses blanks at its ends and holds no control
 * characters, and a lone surrogate has no bytes. With another token the VM would be lost.
 */
function isPresentable(token: string): boolean {
  const isControl = (char: string): boolean => (char < " " && char !== "\t") || char === "\x7f";
  return token.isWellFormed() && !/^[ \t]|[ \t]$/.test(token) && ![...token].some(isControl);
}

function decodeIdentity(seed: string | null, hostPublicKey: string | null): Identity | null {
  if (seed === null && hostPublicKey === null) return null;
  if (seed === null) throw new Mismatch("runHookPayload.identity_seed is missing");
  if (hostPublicKey === null) {
    throw new Mismatch("runHookPayload.identity_host_public_key is missing");
  }
  return {
    seed: decodeKey(seed, "runHookPayload.identity_seed"),
    hostPublicKey: decodeKey(hostPublicKey, "runHookPayload.identity_host_public_key"),
  };
}

function decodeKey(encoded: string, field: string): Uint8Array<ArrayBuffer> {
  const key = decodeBase64(encoded, field);
  if (key.length !== 32) throw new Mismatch(`${field} must be 32 bytes`);
  if (key.every((byte) => byte === 0)) throw new Mismatch(`${field} must not be all zero`);
  return key;
}
