import type { Command } from "commander";
import type { z } from "zod";
import { subscriptionSchema } from "./answers.ts";
import type { ApiClient } from "./api.ts";

/** What an operator says of a subscription; where it runs is the chain profile's choice unless named. */
export interface SubscriptionWish {
  readonly chain: string;
  readonly nodeType: string;
  readonly provider?: string;
  readonly region?: string;
}

export function addPlacement(command: Command): Command {
  return command
    .option("--provider <provider>", "where the node runs (default: the chain profile's first)")
    .option("--region <region>", "the provider's region (default: the profile's for it)");
}

/** Creates a subscription that is active at once, without payment; only an operator may. */
export function createSubscription(
  api: ApiClient,
  { chain, nodeType, provider, region }: SubscriptionWish,
): Promise<z.output<typeof subscriptionSchema>> {
  const body = { chain, node_type: nodeType, provider, region, status: "active" };
  return api.post("/subscriptions", subscriptionSchema, body);
}
