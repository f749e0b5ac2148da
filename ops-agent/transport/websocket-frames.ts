import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  PongSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { AgentMessageInit } from "../session/messages.ts";

export type ParsedFrame =
  | { readonly ok: true; readonly message: ControlMessage }
  | { readonly ok: false; readonly reason: string };

/** One binary frame from the control plane. Whatever the bytes, this answers and never throws. */
export function parseFrame(bytes: Uint8Array): ParsedFrame {
  try {
    const message = fromBinary(ControlMessageSchema, bytes);
    if (message.body.case === undefined) return { ok: false, reason: "no message that this agent knows" };
    return { ok: true, message };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** The frame of a message: bytes, but for a Ping, which is a text that wakes nobody. */
export function agentFrame(message: AgentMessageInit): Uint8Array | string {
  return message.body?.case === "ping" ? "ping" : toBinary(AgentMessageSchema, create(AgentMessageSchema, message));
}

export function pong(): ControlMessage {
  return create(ControlMessageSchema, { body: { case: "pong", value: create(PongSchema) } });
}
