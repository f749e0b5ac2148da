import type { Command } from "commander";
import { listOf, subscriptionSchema } from "../answers.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { record, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

interface CreateOptions {
  readonly chain: string;
  readonly nodeType: string;
}

export function addSubscriptions(program: Command): void {
  const subscriptions = program.command("subscriptions").description("What customers have ordered");

  subscriptions
    .command("create")
    .description("Create a subscription that is active at once, without payment (operators only)")
    .requiredOption("--chain <chain>", "a chain that `orrery chains list` shows")
    .requiredOption("--node-type <type>", "a node type of the chain's profile")
    .action((options: CreateOptions, command: Command) => create(options, sessionOf(command)));

  addPaging(subscriptions.command("list"))
    .description("List subscriptions, the newest first")
    .action((options: Paging, command: Command) => list(options, sessionOf(command)));
}

async function create(options: CreateOptions, session: Session): Promise<void> {
  const body = { chain: options.chain, node_type: options.nodeType, status: "active" };
  const created = await (await session.api()).post("/subscriptions", subscriptionSchema, body);
  session.result(created, () => record(created));
}

async function list(paging: Paging, session: Session): Promise<void> {
  const page = await readPages(await session.api(), "/subscriptions", listOf(subscriptionSchema), paging);
  showPage(session, page, {
    ID: (subscription) => subscription.id,
    CHAIN: (subscription) => subscription.chain,
    TYPE: (subscription) => subscription.node_type,
    PROVIDER: (subscription) => `${subscription.provider}/${subscription.region}`,
    STATUS: (subscription) => subscription.status,
    CREATED: (subscription) => time(subscription.created_at),
  });
}
