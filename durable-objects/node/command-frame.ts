import { create, toBinary } from "@bufbuild/protobuf";
import { z } from "zod";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import { COMMAND_TYPES, type CommandPayload } from "../../domain/node/command.ts";
import { type ControlMessage, ControlMessageSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

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
]);

/** Reads the payload that a command's row holds. */
export function parsePayload(text: string): CommandPayload {
  return payloadSchema.parse(JSON.parse(text));
}

/** `remainingTtlMs` is a duration from receipt; 0 asks the agent what it knows of a command that may no longer start. */
export function commandFrame(commandId: string, payload: CommandPayload, remainingTtlMs: number): ControlMessage {
  const type = COMMAND_TYPES[payload.type];
  const value = { id: commandId, type, remainingTtlMs: BigInt(remainingTtlMs), payload: toPayload(payload) };
  return create(ControlMessageSchema, { body: { case: "command", value } });
}

/**
 * A command must fit into one frame.
 * @throws limit_exceeded
 */
export function assertDeliverable(commandId: string, payload: CommandPayload): void {
  const bytes = toBinary(ControlMessageSchema, commandFrame(commandId, payload, Number.MAX_SAFE_INTEGER)).byteLength;
  if (bytes <= DEFAULTS.agent.maxFrameBytes) return;
  const message = `The command's frame of ${bytes} bytes is larger than ${DEFAULTS.agent.maxFrameBytes}.`;
  throw new OrreryError("limit_exceeded", message, { bytes, limit: DEFAULTS.agent.maxFrameBytes });
}

type PayloadInit =
  | { case: "configure"; value: Omit<Extract<CommandPayload, { type: "CONFIGURE" }>, "type"> }
  | { case: "start" | "restart"; value: Record<never, never> }
  | { case: "stop"; value: { graceMs: number } };

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
  }
}
