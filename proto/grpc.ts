import { type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import { AgentGateway } from "./gen/orrery/agent/v1/gateway_pb.js";

/** `AgentGateway` as @grpc/grpc-js knows services, by protobuf-es messages: the same for its servers and its clients. */
export const agentGatewayService = {
  Enroll: definitionOf(AgentGateway.method.enroll),
  Session: definitionOf(AgentGateway.method.session),
  Heartbeat: definitionOf(AgentGateway.method.heartbeat),
  Report: definitionOf(AgentGateway.method.report),
} satisfies ServiceDefinition;

function definitionOf<I extends DescMessage, O extends DescMessage>(
  method: DescMethod & { readonly input: I; readonly output: O },
): MethodDefinition<MessageShape<I>, MessageShape<O>> {
  const { input, output, methodKind } = method;
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: methodKind === "client_streaming" || methodKind === "bidi_streaming",
    responseStream: methodKind === "server_streaming" || methodKind === "bidi_streaming",
    requestSerialize: (message) => asBuffer(toBinary(input, message)),
    requestDeserialize: (bytes) => fromBinary(input, plain(bytes)),
    responseSerialize: (message) => asBuffer(toBinary(output, message)),
    responseDeserialize: (bytes) => fromBinary(output, plain(bytes)),
  };
}

/** Both are views of the same memory: nothing is copied. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Fields of bytes shall be plain arrays: a Buffer's `slice` shares memory where an array's copies. */
function plain({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
