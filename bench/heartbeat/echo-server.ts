import { create } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import {
  type AgentMessage,
  type ControlMessage,
  ControlMessageSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";

/** `node echo-server.ts <port>`: answers every message of a session by a Pong and does nothing else; what gRPC itself costs. */

const [port = ""] = process.argv.slice(2);
const pong = create(ControlMessageSchema, { body: { case: "pong", value: {} } });

const server = new Server();
server.addService(agentGatewayService, {
  Session(call: ServerDuplexStream<AgentMessage, ControlMessage>) {
    call.on("data", () => call.write(pong));
    call.on("end", () => call.end());
    // A client that goes away in the middle is of no interest here.
    call.on("error", () => undefined);
  },
});
server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error) => {
  if (error !== null) throw error;
});
