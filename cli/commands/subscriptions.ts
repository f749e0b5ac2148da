import type { Command } from "commander";
import { listOf, subscriptionSchema } from "../answers.ts";
import { addPlacement, createSubscription, type SubscriptionWish } from "../new-subscription.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { record, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

export function addSubscriptions(program: Command): void {
  const subscriptions = program.command("subscriptions").description("What customers have ordered");

  addPlacement(subscriptions.command("create"))
    .description("Create a subscription that is active at once, without payment (operators only)")
    .requiredOption("--chain <chain>", "a chain that `orrery chains list` shows")
    .requiredOption("--node-type <type>", "a node type of the chain's profile")
    .action((wish: SubscriptionWish, command: Command) => create(wish, sessionOf(command)));

  addPaging(subscriptions.command("list"))
    .description("List subscriptions, the newest first")
    .action((options: Paging, command: Command) => list(options, sessionOf(command)));
}

async function create(wish: SubscriptionWish, session: Session): Promise<void> {
  const created = await createSubscription(await session.api(), wish);
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
