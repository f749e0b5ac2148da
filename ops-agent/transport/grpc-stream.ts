import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { type Client, type ClientDuplexStream, type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import { AgentMessageSchema, type ControlMessage } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";
import type { AgentMessageInit } from "../session/messages.ts";
import { endOf } from "./grpc-end.ts";
import { CLOSE_MS, lost, type Transport, type TransportEnd, type TransportHandlers } from "./way.ts";

export interface GrpcTransportOptions {
  /** Of this session alone: closed with it. */
  readonly client: Client;
  readonly metadata: Metadata;
  readonly handlers: TransportHandlers;
}

/** A session as one stream in both directions. */
export class GrpcStream implements Transport {
  readonly #client: Client;
  readonly #handlers: TransportHandlers;
  readonly #call: ClientDuplexStream<Buffer, ControlMessage>;
  /** Bytes that the other side has not taken yet. */
  #pending = 0;
  #isEnded = false;

  constructor({ client, metadata, handlers }: GrpcTransportOptions) {
    this.#client = client;
    this.#handlers = handlers;
    const { path, responseDeserialize } = agentGatewayService.Session;
    this.#call = client.makeBidiStreamRequest(path, (bytes: Buffer) => bytes, responseDeserialize, metadata);
    this.#call.on("data", (message: ControlMessage) => {
      if (!this.#isEnded) handlers.onMessage(message);
    });
    this.#call.on("error", (error: ServiceError) => this.#end(endOf(error)));
    this.#call.on("status", (end) => {
      if (end.code === status.OK) this.#end(lost("the bridge ended the stream"));
    });
  }

  send(message: AgentMessageInit): void {
    if (this.#isEnded) return;
    const bytes = agentGatewayService.Session.requestSerialize(create(AgentMessageSchema, message));
    this.#pending += bytes.length;
    this.#call.write(bytes, () => {
      this.#pending -= bytes.length;
    });
    if (this.#pending > DEFAULTS.bridge.bufferBytes) this.#end(lost("the bridge takes nothing"));
  }

  async close(): Promise<void> {
    this.#isEnded = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#call.on("status", () => resolve());
    this.#call.end();
    await Promise.race([promise, delay(CLOSE_MS)]);
    this.abort();
  }

  abort(): void {
    this.#isEnded = true;
    this.#call.cancel();
    this.#client.close();
  }

  #end(end: TransportEnd): void {
    if (this.#isEnded) return;
    this.abort();
    this.#handlers.onEnd(end);
  }
}
