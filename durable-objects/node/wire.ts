import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { SealedFrame } from "../../domain/identity/frame-seal.ts";
import type { Introduction } from "../../domain/node/admission.ts";
import { AgentMessageSchema, HelloSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

/** One message of an agent, before anything in it is believed. */
export type WireMessage =
  | { readonly kind: "hello"; readonly bytes: Uint8Array }
  | { readonly kind: "proof"; readonly opening: Uint8Array; readonly signature: Uint8Array }
  | { readonly kind: "sealed"; readonly frame: SealedFrame };

export interface AgentHello extends Introduction {
  readonly protocolVersion: number;
  /** X25519, 32 bytes. */
  readonly ephemeralKey: Uint8Array;
  readonly controlKeyIds: readonly string[];
}

const MAX = { id: 100, keyIds: 16 } as const;

/**
 * @throws malformed_frame, frame_too_large
 */
export function decodeMessage(data: ArrayBuffer | string): WireMessage {
  if (typeof data === "string") throw malformed("a text frame other than ping");
  if (data.byteLength > DEFAULTS.agent.maxFrameBytes) {
    const message = `A frame of ${data.byteLength} bytes is larger than ${DEFAULTS.agent.maxFrameBytes}.`;
    throw new OrreryError("frame_too_large", message);
  }
  const { body } = parse(AgentMessageSchema, new Uint8Array(data));
  switch (body.case) {
    case "hello":
      return { kind: "hello", bytes: body.value };
    case "proof":
      return { kind: "proof", opening: body.value.opening, signature: body.value.signature };
    case "sealed": {
      const { counter, ...sealed } = body.value;
      return { kind: "sealed", frame: { counter: Number(counter), body: sealed.body, mac: sealed.mac } };
    }
    default:
      // Whatever it is, it is not sealed, so it must not count for anything.
      throw malformed("neither Hello, Proof nor Sealed");
  }
}

/** @throws malformed_frame */
export function decodeHello(bytes: Uint8Array): AgentHello {
  if (bytes.byteLength > DEFAULTS.agent.helloBytes) throw malformed("the Hello is too large");
  const hello = parse(HelloSchema, bytes);
  if (hello.controlKeyIds.length > MAX.keyIds) throw malformed(`more than ${MAX.keyIds} control_key_ids`);
  return {
    protocolVersion: hello.protocolVersion,
    nodeId: identifier("node_id", hello.nodeId),
    installationId: identifier("installation_id", hello.installationId),
    generation: hello.generation,
    sessionEpoch: exact("session_epoch", hello.sessionEpoch),
    ephemeralKey: hello.ephemeralKey,
    controlKeyIds: hello.controlKeyIds.map((id) => identifier("control_key_ids", id)),
  };
}

/** @throws malformed_frame */
export function parse<Desc extends DescMessage>(schema: Desc, bytes: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new OrreryError("malformed_frame", "The frame is not a message of the agent's protocol.", {}, { cause });
  }
}

export function identifier(field: string, value: string): string {
  if (/^[A-Za-z0-9._:-]+$/.test(value) && value.length <= MAX.id) return value;
  throw malformed(`${field} is not an id`);
}

export function exact(field: string, value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed(`${field} is too large`);
  return Number(value);
}

export function malformed(what: string): OrreryError {
  return new OrreryError("malformed_frame", `The frame is not valid: ${what}.`);
}
