import { DurableObject } from "cloudflare:workers";
import { OrreryError } from "../../domain/errors.ts";
import type { EnrolmentClaim } from "../../domain/identity/enrolment.ts";
import type { CommandRequest, CommandView } from "../../domain/node/command.ts";
import type {
  NodeBirth,
  NodeProjection,
  NodeState,
  NodeView,
  SagaWait,
  TransitionTrigger,
} from "../../domain/node/node.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import { migrate, upgrade } from "../shared/migrations.ts";
import type { EnrolmentOutcome, NodeContract } from "./contract.ts";
import { assemble, type NodeParts } from "./parts.ts";
import { NODE_MIGRATIONS } from "./schema.ts";
import type { NodeRecord } from "./store.ts";

/**
 * One node: the only writer of its state (DESIGN section 4). This class is wiring: it lets calls, sockets and the alarm
 * in, has the parts do the work, and arms the alarm behind them.
 */
export class NodeObject extends DurableObject<Env> implements NodeContract {
  readonly #parts: NodeParts;
  #started: Promise<unknown>;
  /** Whether anybody ever initialised it. */
  #isSetUp = false;
  /** The alarm as this instance found it; undefined once what it may say of a gap has been noticed. */
  #alarmAtStart: number | null | undefined = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#parts = assemble(ctx, env);
    this.#parts.sockets.answerPings();
    this.#started = this.#gatedStart();
  }

  async initialise(birth: NodeBirth): Promise<NodeView> {
    await this.#ready();
    migrate(this.ctx.storage, NODE_MIGRATIONS);
    this.#isSetUp = true;
    this.#parts.lifecycle.initialise(birth);
    return this.#armedView();
  }

  async view(): Promise<NodeView> {
    await this.#open();
    return this.#parts.lifecycle.view(this.#node());
  }

  async expectInstallation(generation: number, notify: SagaWait | null): Promise<void> {
    await this.#open();
    this.#parts.writer.commit(({ node }) => this.#parts.installations.expect(generation, node.state, notify));
    await this.#parts.clock.arm();
  }

  async enroll(claim: EnrolmentClaim): Promise<EnrolmentOutcome> {
    await this.#open();
    const outcome = this.#parts.writer.commit((change) => this.#parts.installations.enroll(change, claim));
    await this.#parts.clock.arm();
    return outcome;
  }

  async replaceInstallation(generation: number, notify: SagaWait | null): Promise<NodeView> {
    await this.#open();
    this.#parts.writer.commit((change) => this.#parts.installations.replace(change, generation, notify));
    return this.#armedView();
  }

  async isAgentReady(generation: number): Promise<boolean> {
    await this.#open();
    return this.#parts.lifecycle.isAgentReady(generation);
  }

  async transition(to: NodeState, trigger: TransitionTrigger, reason: string | null): Promise<NodeView> {
    await this.#open();
    this.#parts.writer.commit((change) => {
      this.#parts.lifecycle.transition(change, { to, trigger, effectiveAt: change.at }, reason);
    });
    return this.#armedView();
  }

  async forceTransition(to: NodeState, trigger: TransitionTrigger, reason: string, actor: string): Promise<NodeView> {
    await this.#open();
    this.#parts.writer.commit((change) => {
      this.#parts.lifecycle.force(change, { to, trigger, effectiveAt: change.at }, reason, actor);
    });
    return this.#armedView();
  }

  async enqueueCommand(request: CommandRequest): Promise<CommandView> {
    await this.#open();
    const view = this.#parts.writer.commit((change) => this.#parts.commands.enqueue(change, request));
    await this.#parts.clock.arm();
    return view;
  }

  async cancelCommand(commandId: string, actor: string): Promise<CommandView> {
    await this.#open();
    const view = this.#parts.writer.commit((change) => this.#parts.commands.cancel(change, commandId, actor));
    await this.#parts.clock.arm();
    return view;
  }

  async command(commandId: string): Promise<CommandView> {
    await this.#open();
    return this.#parts.commands.view(commandId);
  }

  async commands(page: { readonly limit: number; readonly before: number | null }) {
    await this.#open();
    return this.#parts.commands.page(page.limit, page.before);
  }

  async readOutbox(afterPosition: number, limit: number) {
    await this.#open();
    const node = this.#node();
    const events = this.#parts.outbox.read(afterPosition, limit);
    return { incarnation: node.incarnation, events, projection: this.#parts.lifecycle.projection(node) };
  }

  async purgeOutbox(incarnation: number, throughPosition: number): Promise<void> {
    await this.#open();
    const node = this.#node();
    if (node.incarnation !== incarnation) {
      throw new OrreryError("incarnation_conflict", "The object was created anew.", { incarnation: node.incarnation });
    }
    this.#parts.outbox.purge(throughPosition);
    await this.#removeIfRead();
  }

  async touch(): Promise<NodeProjection> {
    await this.#open();
    await this.#parts.clock.ring();
    await this.#removeIfRead();
    return this.#parts.lifecycle.projection(this.#node());
  }

  override async fetch(request: Request): Promise<Response> {
    await this.#ready();
    if (!this.#isSetUp) return Response.json({ code: "node_not_found" }, { status: 404 });
    this.#noticeGapAtStart();
    const response = this.#parts.connections.accept(this.#parts.store.node(), request);
    await this.#parts.clock.arm();
    return response;
  }

  override async webSocketMessage(socket: WebSocket, data: ArrayBuffer | string): Promise<void> {
    await this.#open();
    this.#parts.connections.onMessage(this.#node(), socket, data);
    await this.#parts.clock.arm();
  }

  /** A close that wakes us from hibernation is told before gaps are looked for: its socket is listed no more. */
  override async webSocketClose(socket: WebSocket): Promise<void> {
    await this.#ready();
    this.#parts.sockets.close(socket, "closed by the agent");
    this.#parts.connections.onClose(socket);
    this.#noticeGapAtStart();
    await this.#parts.clock.arm();
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.webSocketClose(socket);
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    await this.#open();
    this.#noticeGap(info?.scheduledTime ?? null);
    await this.#parts.clock.ring();
    await this.#removeIfRead();
  }

  /** The start keeps every other event out, and never throws inside the gate: that would break the object's stubs. */
  #gatedStart(): Promise<unknown> {
    return this.ctx.blockConcurrencyWhile(async () => {
      try {
        await this.#start();
        return null;
      } catch (thrown) {
        return thrown;
      }
    });
  }

  async #start(): Promise<void> {
    this.#isSetUp = upgrade(this.ctx.storage, NODE_MIGRATIONS);
    if (!this.#isSetUp) return;
    this.#alarmAtStart = await this.ctx.storage.getAlarm();
    await this.#parts.clock.armIfNone();
  }

  #noticeGapAtStart(): void {
    if (this.#alarmAtStart === undefined) return;
    this.#noticeGap(this.#alarmAtStart);
    this.#alarmAtStart = undefined;
  }

  #noticeGap(alarmAt: number | null): void {
    const node = this.#parts.store.node();
    if (node === null || !this.#parts.watch.hasListeningGap(node, alarmAt, now())) return;
    this.#parts.writer.commit((change) => this.#parts.watch.recordListeningGap(change, alarmAt));
  }

  /** A start that failed is tried again by the next call. */
  async #ready(): Promise<void> {
    const failure = await this.#started;
    if (failure === null) return;
    this.#started = this.#gatedStart();
    throw failure;
  }

  /** @throws node_not_found for an object that nobody initialised */
  async #open(): Promise<void> {
    await this.#ready();
    this.#node();
    this.#noticeGapAtStart();
  }

  #node(): NodeRecord {
    const node = this.#isSetUp ? this.#parts.store.node() : null;
    if (node === null) throw new OrreryError("node_not_found", "There is no such node.");
    return node;
  }

  async #armedView(): Promise<NodeView> {
    await this.#parts.clock.arm();
    return this.#parts.lifecycle.view(this.#node());
  }

  /** An ended node whose outbox has been read keeps one row, so that a late caller still learns how it ended. */
  async #removeIfRead(): Promise<void> {
    const { store, outbox, clock, writer } = this.#parts;
    const node = this.#node();
    if (node.storageRemoved || !isTerminal(node.state) || outbox.oldestAt() !== null) return;
    if (clock.timers().length > 0) return;
    writer.transaction(() => {
      store.removeAllButNode();
      store.saveNode({ ...node, storageRemoved: true });
    });
    await this.ctx.storage.deleteAlarm();
  }
}
