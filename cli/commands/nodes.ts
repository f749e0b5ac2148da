import { type Command, Option } from "commander";
import { type AgentAnswer, commandSchema, eventSchema, listOf, type NodeAnswer, nodeSchema } from "../answers.ts";
import type { ApiClient } from "../api.ts";
import { parseDuration } from "../duration.ts";
import { UsageFailure } from "../failure.ts";
import { addPlacement, createSubscription, type SubscriptionWish } from "../new-subscription.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { record, table, time } from "../print.ts";
import { followSaga, readSagas, stepLine } from "../saga-view.ts";
import { type Session, sessionOf } from "../session.ts";
import { addNodeCommands, COMMAND_COLUMNS } from "./node-commands.ts";
import { addNodeKeys } from "./node-keys.ts";
import { addNodeReenroll } from "./node-reenroll.ts";

const WAIT_MS = 10 * 60_000;
const SHOWN_COMMANDS = 5;

interface WaitOptions {
  readonly wait?: boolean;
  readonly timeout: number;
}

interface CreateOptions extends WaitOptions, Partial<SubscriptionWish> {
  readonly subscription?: string;
}

interface ListOptions extends Paging {
  readonly state?: string;
  readonly chain?: string;
}

export function addNodes(program: Command): void {
  const nodes = program.command("nodes").description("Managed nodes");

  addWait(addPlacement(nodes.command("create")))
    .description("Provision a node for a subscription; an operator may have the subscription made with it")
    .option("--subscription <id>", "the subscription that the node is for")
    .option("--chain <chain>", "without a subscription: the chain of a new one")
    .option("--node-type <type>", "without a subscription: the node type of a new one")
    .action((options: CreateOptions, command: Command) => create(options, sessionOf(command)));

  addPaging(nodes.command("list"))
    .description("List nodes, the newest first")
    .option("--state <state>", "only nodes in this state, such as healthy")
    .option("--chain <chain>", "only nodes of this chain")
    .action((options: ListOptions, command: Command) => list(options, sessionOf(command)));

  nodes
    .command("get")
    .description("Show a node, what its sagas did and its latest commands")
    .argument("<node>", "the node's id")
    .action((node: string, _options: unknown, command: Command) => get(node, sessionOf(command)));

  addPaging(nodes.command("events"))
    .description("Show what happened to a node, the latest first")
    .argument("<node>", "the node's id")
    .action((node: string, options: Paging, command: Command) => events(node, options, sessionOf(command)));

  addNodeCommands(nodes);
  addNodeKeys(nodes);
  addNodeReenroll(nodes);

  addWait(nodes.command("terminate"))
    .description("Stop a node and remove everything it has")
    .argument("<node>", "the node's id")
    .action((node: string, options: WaitOptions, command: Command) => terminate(node, options, sessionOf(command)));
}

function addWait(command: Command): Command {
  return command
    .option("--wait", "show each step until the last one has ended")
    .addOption(new Option("--timeout <duration>", "how long to wait").argParser(parseDuration).default(WAIT_MS, "10m"));
}

const nodePath = (node: string) => `/nodes/${encodeURIComponent(node)}`;

async function create(options: CreateOptions, session: Session): Promise<void> {
  const api = await session.api();
  const subscription = options.subscription ?? (await newSubscription(api, options, session));
  const node = await api.post("/nodes", nodeSchema, { subscription_id: subscription });
  if (options.wait !== true) return showNode(session, node);
  session.remark(`node ${node.id}`);
  await followSaga(api, session, { nodeId: node.id, workflow: "provision-node", timeoutMs: options.timeout });
  showNode(session, await api.get(nodePath(node.id), nodeSchema));
}

async function newSubscription(api: ApiClient, options: CreateOptions, session: Session): Promise<string> {
  const { chain, nodeType } = options;
  if (chain === undefined || nodeType === undefined) {
    throw new UsageFailure("Give --subscription, or --chain and --node-type for a new one.");
  }
  const subscription = await createSubscription(api, { ...options, chain, nodeType });
  session.remark(`subscription ${subscription.id}`);
  return subscription.id;
}

async function list({ state, chain, ...paging }: ListOptions, session: Session): Promise<void> {
  const page = await readPages(await session.api(), "/nodes", listOf(nodeSchema), paging, { state, chain });
  showPage(session, page, {
    ID: (node) => node.id,
    CHAIN: (node) => node.chain,
    TYPE: (node) => node.node_type,
    STATE: (node) => node.display_state,
    SYNC: (node) => node.sync_status,
    SINCE: (node) => time(node.state_since),
    PROVIDER: (node) => `${node.provider}/${node.region}`,
  });
}

async function get(nodeId: string, session: Session): Promise<void> {
  const api = await session.api();
  const path = nodePath(nodeId);
  const node = await api.get(path, nodeSchema);
  if (session.json) return showNode(session, node);
  const sagas = await readSagas(api, nodeId);
  const commands = await api.get(`${path}/commands`, listOf(commandSchema), { limit: SHOWN_COMMANDS });
  const steps = sagas.map((saga) => [`\n${saga.workflow} ${saga.status}`, ...saga.steps.map(stepLine)].join("\n  "));
  session.result(node, () => `${nodeText(node)}${steps.join("\n")}\n\n${table(COMMAND_COLUMNS, commands.items)}`);
}

function showNode(session: Session, node: NodeAnswer): void {
  session.result(node, () => nodeText(node));
}

function nodeText(node: NodeAnswer): string {
  const endpoints = Object.entries(node.endpoints).map(([name, address]) => [`endpoint ${name}`, address]);
  return record({
    id: node.id,
    state: node.display_state,
    since: time(node.state_since),
    sync: node.sync_status,
    application: node.application_health,
    chain: `${node.chain} ${node.node_type}`,
    provider: `${node.provider}/${node.region}`,
    subscription: node.subscription_id,
    created: time(node.created_at),
    ...Object.fromEntries(endpoints),
    ...Object.fromEntries((node.agents ?? []).map((agent) => [`agent ${agent.generation}`, agentText(agent)])),
  });
}

function agentText({ status, connected, enrolled_at, key_fingerprint }: AgentAnswer): string {
  const enrolled = enrolled_at === null ? "not enrolled" : `enrolled ${time(enrolled_at)}, key ${key_fingerprint}`;
  return `${status}, ${connected ? "connected" : "not connected"}, ${enrolled}`;
}

async function events(nodeId: string, paging: Paging, session: Session): Promise<void> {
  const page = await readPages(await session.api(), `${nodePath(nodeId)}/events`, listOf(eventSchema), paging);
  showPage(session, page, {
    TIME: (event) => time(event.occurred_at),
    EVENT: (event) => event.kind,
    DETAIL: (event) => detailOf(event.body),
  });
}

/** An event's facts as `name=value`, without those that say nothing. */
function detailOf(body: Readonly<Record<string, unknown>>): string {
  return Object.entries(body)
    .filter(([name, value]) => name !== "kind" && value !== null && value !== false)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}

async function terminate(nodeId: string, options: WaitOptions, session: Session): Promise<void> {
  const api = await session.api();
  const node = await api.post(`${nodePath(nodeId)}/terminate`, nodeSchema, {});
  if (options.wait !== true) return showNode(session, node);
  await followSaga(api, session, { nodeId, workflow: "terminate-node", timeoutMs: options.timeout });
  showNode(session, await api.get(nodePath(nodeId), nodeSchema));
}
