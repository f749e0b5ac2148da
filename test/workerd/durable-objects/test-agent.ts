import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { NodeObject } from "../../../durable-objects/node/object.ts";
import {
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  type Hello,
  StatusSchema,
  SyncStatus,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";

type Init = Exclude<MessageInitShape<typeof AgentMessageSchema>, { $typeName: string }>;
type Body = NonNullable<Init["body"]>;
type HelloInit = Partial<Omit<Hello, "$typeName" | "$unknown">>;

const INSTALLATION = "11111111-1111-4111-8111-111111111111";

export const SYNCED = create(StatusSchema, { syncStatus: SyncStatus.SYNCED });

/** The agent's end of a session, frame by frame. */
export class TestAgent {
  readonly socket: WebSocket;
  readonly frames: ControlMessage[] = [];
  readonly texts: string[] = [];
  closed: { code: number; reason: string } | null = null;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") this.texts.push(data);
      else if (data instanceof ArrayBuffer) this.frames.push(fromBinary(ControlMessageSchema, new Uint8Array(data)));
    });
    socket.addEventListener("close", ({ code, reason }) => {
      this.closed = { code, reason };
    });
    socket.accept();
  }

  static async dial(stub: DurableObjectStub<NodeObject>, generation = 1): Promise<TestAgent> {
    const response = await stub.fetch("http://orrery.test/session", {
      headers: { Upgrade: "websocket", "Orrery-Generation": String(generation) },
    });
    if (response.webSocket === null) throw new Error(`no socket: ${response.status} ${await response.text()}`);
    return new TestAgent(response.webSocket);
  }

  /** Dials, greets and waits for the welcome. */
  static async join(stub: DurableObjectStub<NodeObject>, epoch: number, hello: HelloInit = {}): Promise<TestAgent> {
    const agent = await TestAgent.dial(stub, hello.generation ?? 1);
    agent.hello(epoch, hello);
    await agent.until(() => agent.last("welcome") !== undefined);
    return agent;
  }

  hello(epoch: number, hello: HelloInit = {}): void {
    const value = {
      protocolVersion: 1,
      installationId: INSTALLATION,
      generation: 1,
      sessionEpoch: BigInt(epoch),
      agentVersion: "0.1.0",
      ...hello,
    };
    this.send({ case: "hello", value });
  }

  send(body: Body): void {
    this.socket.send(toBinary(AgentMessageSchema, create(AgentMessageSchema, { body })));
  }

  status(syncStatus: 1 | 2 | 3 | 4, endpoints: Record<string, string> = {}): void {
    this.send({ case: "status", value: { syncStatus, endpoints } });
  }

  beat(...runningCommandIds: string[]): void {
    this.send({ case: "beat", value: { runningCommandIds } });
  }

  acknowledge(commandId: string): void {
    this.send({ case: "commandAcknowledged", value: { commandId } });
  }

  complete(commandId: string, metadata: Record<string, string> = {}): void {
    this.send({ case: "commandCompleted", value: { commandId, metadata } });
  }

  fail(commandId: string, kind: 1 | 2 | 3 | 4 | 5, message: string, code = ""): void {
    this.send({ case: "commandFailed", value: { commandId, kind, code, message } });
  }

  /** A beat with nothing to say, answered without waking the object. */
  async ping(): Promise<void> {
    const before = this.texts.length;
    this.socket.send("ping");
    await this.until(() => this.texts.length > before);
  }

  /** Waits until every frame sent before has been handled: what arrives in order is answered in order. */
  async until(condition: () => boolean): Promise<void> {
    const deadline = Date.now() + 5_000;
    while (!condition()) {
      if (Date.now() > deadline) throw new Error(`nothing came; heard ${this.kinds().join(", ")}`);
      await scheduler.wait(2);
    }
  }

  kinds(): string[] {
    return this.frames.map(({ body }) => body.case ?? "none");
  }

  /** Ids of the commands delivered, in order, repetitions included. */
  delivered(): string[] {
    return this.frames.flatMap(({ body }) => (body.case === "command" ? [body.value.id] : []));
  }

  last<C extends ControlMessage["body"]["case"]>(kind: C): Extract<ControlMessage["body"], { case: C }> | undefined {
    return this.frames.map(({ body }) => body).findLast((body) => isKind(body, kind));
  }
}

function isKind<C extends ControlMessage["body"]["case"]>(
  body: ControlMessage["body"],
  kind: C,
): body is Extract<ControlMessage["body"], { case: C }> {
  return body.case === kind;
}
