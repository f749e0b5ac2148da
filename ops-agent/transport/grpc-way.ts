import { readFileSync } from "node:fs";
import { ChannelCredentials, Client, type ClientOptions, Metadata } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { EnrollRequest, EnrollResponse } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";
import type { BridgeSettings } from "../settings.ts";
import { endOf } from "./grpc-end.ts";
import { GrpcStream } from "./grpc-stream.ts";
import { GrpcUnary } from "./grpc-unary.ts";
import { OPEN_MS, type Ticket, type Transport, type TransportHandlers, type Way } from "./way.ts";

const REACH_MS = 5_000;
/** An answer to a unary call may hold what the bridge kept for the session, and one frame more. */
const MESSAGE_BYTES = { stream: DEFAULTS.agent.maxFrameBytes, unary: DEFAULTS.bridge.bufferBytes * 2 } as const;

/** By a bridge: gRPC to it, and it holds the WebSocket to the edge. A connection of its own for each session. */
export class BridgeWay implements Way {
  readonly name = "bridge";
  readonly #settings: BridgeSettings;

  constructor(settings: BridgeSettings) {
    this.#settings = settings;
  }

  async enrol(request: EnrollRequest, signal: AbortSignal): Promise<EnrollResponse> {
    const client = this.#connect();
    const { path, requestSerialize, responseDeserialize } = agentGatewayService.Enroll;
    const { promise, resolve, reject } = Promise.withResolvers<EnrollResponse>();
    const options = { deadline: Date.now() + OPEN_MS };
    const call = client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      new Metadata(),
      options,
      (error, response) => {
        if (response === undefined) reject(new Error(error === null ? "no answer" : endOf(error).reason));
        else resolve(response);
      },
    );
    const cancel = () => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    return promise.finally(() => {
      signal.removeEventListener("abort", cancel);
      client.close();
    });
  }

  open(ticket: Ticket, handlers: TransportHandlers): Transport {
    const options = { metadata: metadataOf(ticket), handlers };
    try {
      const client = this.#connect();
      return this.#settings.mode === "stream"
        ? new GrpcStream({ ...options, client })
        : new GrpcUnary({ ...options, client });
    } catch (error) {
      return unopened(error instanceof Error ? error.message : String(error), handlers);
    }
  }

  async isReachable(): Promise<boolean> {
    try {
      const client = this.#connect();
      const { promise, resolve } = Promise.withResolvers<boolean>();
      client.waitForReady(Date.now() + REACH_MS, (error) => resolve(error === undefined));
      return await promise.finally(() => client.close());
    } catch {
      // Its certificate files cannot be read at this moment.
      return false;
    }
  }

  #connect(): Client {
    const { url, mode } = this.#settings;
    const { host } = new URL(url);
    return new Client(host, this.#credentials(), channelOptions(mode));
  }

  /** The files are read for each connection, so that a renewed certificate needs no restart. */
  #credentials(): ChannelCredentials {
    const { url, ca_file, cert_file, key_file } = this.#settings;
    if (!url.startsWith("grpcs:")) return ChannelCredentials.createInsecure();
    const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
    return ChannelCredentials.createSsl(read(ca_file), read(key_file), read(cert_file));
  }
}

function channelOptions(mode: BridgeSettings["mode"]): ClientOptions {
  return {
    "grpc.max_receive_message_length": MESSAGE_BYTES[mode],
    "grpc.max_send_message_length": MESSAGE_BYTES[mode],
    "grpc.keepalive_time_ms": 3 * DEFAULTS.heartbeat.beatMs,
    "grpc.keepalive_timeout_ms": DEFAULTS.heartbeat.beatMs,
    // Each session connects anew, by the agent's own back-off; a channel's shared one would come on top of it.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 500,
    "grpc.max_reconnect_backoff_ms": 2_000,
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
  };
}

function metadataOf({ nodeId, generation, installationId, sessionEpoch, ticket, signature }: Ticket): Metadata {
  const metadata = new Metadata();
  metadata.set("orrery-node", nodeId);
  metadata.set("orrery-generation", String(generation));
  metadata.set("orrery-installation", installationId);
  metadata.set("orrery-epoch", String(sessionEpoch));
  metadata.set("orrery-ticket", ticket);
  metadata.set("orrery-signature", signature);
  return metadata;
}

function unopened(reason: string, handlers: TransportHandlers): Transport {
  const timer = setImmediate(() => handlers.onEnd({ reason, reconnectAfterMs: null }));
  const abort = () => clearImmediate(timer);
  return { send: () => undefined, close: async () => abort(), abort };
}
