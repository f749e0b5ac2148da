import { once } from "node:events";
import { create } from "@bufbuild/protobuf";
import { type ClientDuplexStream, credentials, makeClientConstructor } from "@grpc/grpc-js";
import { WebSocket } from "ws";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";

/** One node's connection, as a bench beats on it. */
export interface Line {
  /** Sends a beat without news; `onAnswer` is called when it is answered. */
  beat(): void;
  onAnswer: () => void;
  close(): void;
}

const OPEN_MS = 30_000;
const PING = create(AgentMessageSchema, { body: { case: "ping", value: {} } });
const EchoClient = makeClientConstructor(agentGatewayService, "Echo");

/** A socket on which `ping` is answered by `pong`, ready to beat. */
export async function socketLine(url: string): Promise<Line> {
  const socket = new WebSocket(url, { perMessageDeflate: false, handshakeTimeout: OPEN_MS });
  await once(socket, "open");
  const line: Line = { beat: () => socket.send("ping"), onAnswer: () => undefined, close: () => socket.terminate() };
  socket.on("message", () => line.onAnswer());
  return line;
}

/** A stream on a connection of its own to a server that answers every Ping; ready when the first has been answered. */
export async function echoLine(address: string): Promise<Line> {
  const client = new EchoClient(address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const { path, requestSerialize, responseDeserialize } = agentGatewayService.Session;
  const stream: ClientDuplexStream<AgentMessage, ControlMessage> = client.makeBidiStreamRequest(
    path,
    requestSerialize,
    responseDeserialize,
  );
  const line: Line = {
    beat: () => stream.write(PING),
    onAnswer: () => undefined,
    close: () => {
      stream.on("error", () => undefined);
      stream.cancel();
      client.close();
    },
  };
  line.beat();
  await once(stream, "data");
  stream.on("data", () => line.onAnswer());
  return line;
}
