import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { hexToBytes } from "@noble/hashes/utils.js";
import { z } from "zod";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import { COMMAND_TYPES, type CommandPayload, type InjectedKey } from "../../domain/node/command.ts";
import {
  type Command,
  CommandSchema,
  type InjectKeysPayloadSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

const injectedKeySchema = z.object({
  name: z.string(),
  keyType: z.string(),
  source: z.string(),
  publicKey: z.hex().nullable(),
  nonce: z.base64(),
  ciphertext: z.base64(),
  path: z.string(),
  owner: z.string().nullable(),
  mode: z.int().nonnegative(),
});

const payloadSchema = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("CONFIGURE"),
    chain: z.string(),
    nodeType: z.string(),
    contentHash: z.string(),
    profileYaml: z.string(),
    runtimeYaml: z.string(),
    recipeYaml: z.string(),
    observationYaml: z.string(),
    values: z.record(z.string(), z.string()),
  }),
  z.object({ type: z.literal("START") }),
  z.object({ type: z.literal("STOP"), graceMs: z.int().nonnegative() }),
  z.object({ type: z.literal("RESTART") }),
  z.object({
    type: z.literal("INJECT_KEYS"),
    sealedDek: z.base64(),
    keys: z.array(injectedKeySchema),
    keysMac: z.base64(),
  }),
]);

/** Reads the payload that a command's row holds. */
export function parsePayload(text: string): CommandPayload {
  return payloadSchema.parse(JSON.parse(text));
}

/** `remainingTtlMs` is a duration from receipt; 0 asks the agent what it knows of a command that may no longer start. */
export function commandMessageOf(commandId: string, payload: CommandPayload, remainingTtlMs: number): Command {
  const type = COMMAND_TYPES[payload.type];
  const value = { id: commandId, type, remainingTtlMs: BigInt(remainingTtlMs), payload: toPayload(payload) };
  return create(CommandSchema, value);
}

/** What signature, seal and the fields around them add to a command at most. */
const ENVELOPE_BYTES = 512;

/**
 * A command must fit into one frame.
 * @throws limit_exceeded
 */
export function assertDeliverable(commandId: string, payload: CommandPayload): void {
  const command = commandMessageOf(commandId, payload, Number.MAX_SAFE_INTEGER);
  const bytes = toBinary(CommandSchema, command).byteLength + ENVELOPE_BYTES;
  if (bytes <= DEFAULTS.agent.maxFrameBytes) return;
  const message = `The command's frame of ${bytes} bytes is larger than ${DEFAULTS.agent.maxFrameBytes}.`;
  throw new OrreryError("limit_exceeded", message, { bytes, limit: DEFAULTS.agent.maxFrameBytes });
}

type PayloadInit =
  | { case: "configure"; value: Omit<Extract<CommandPayload, { type: "CONFIGURE" }>, "type"> }
  | { case: "start" | "restart"; value: Record<never, never> }
  | { case: "stop"; value: { graceMs: number } }
  | { case: "injectKeys"; value: MessageInitShape<typeof InjectKeysPayloadSchema> };

function toPayload(payload: CommandPayload): PayloadInit {
  switch (payload.type) {
    case "CONFIGURE": {
      const { type, ...value } = payload;
      return { case: "configure", value };
    }
    case "START":
      return { case: "start", value: {} };
    case "STOP":
      return { case: "stop", value: { graceMs: payload.graceMs } };
    case "RESTART":
      return { case: "restart", value: {} };
    case "INJECT_KEYS":
      return {
        case: "injectKeys",
        value: {
          sealedDek: base64Decode(payload.sealedDek),
          keys: payload.keys.map(toKey),
          keysMac: base64Decode(payload.keysMac),
        },
      };
  }
}

function toKey({ nonce, ciphertext, publicKey, owner, ...key }: InjectedKey) {
  return {
    ...key,
    publicKey: hexToBytes(publicKey ?? ""),
    nonce: base64Decode(nonce),
    ciphertext: base64Decode(ciphertext),
    owner: owner ?? "",
  };
}
