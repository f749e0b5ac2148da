import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

/** A message to the control plane, as it is written: `{ body: { case, value } }`. */
export type AgentMessageInit = MessageInitShape<typeof AgentMessageSchema>;
export type ControlBody = Exclude<ControlMessage["body"], { case: undefined }>;

export type ParsedFrame =
  | { readonly ok: true; readonly body: ControlBody }
  | { readonly ok: false; readonly reason: string };

/** One frame from the control plane. Whatever the bytes, this answers and never throws. */
export function parseFrame(bytes: Uint8Array): ParsedFrame {
  try {
    const { body } = fromBinary(ControlMessageSchema, bytes);
    if (body.case === undefined) return { ok: false, reason: "no message that this agent knows" };
    return { ok: true, body };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** The bytes of one frame to the control plane. */
export function agentFrame(message: AgentMessageInit): Uint8Array {
  return toBinary(AgentMessageSchema, create(AgentMessageSchema, message));
}
