import { type ErrorCode, errorCodeOf, OrreryError } from "../../domain/errors.ts";
import type { NodeContract } from "../../durable-objects/node/contract.ts";
import { callNode } from "../../durable-objects/shared/stubs.ts";
import type { ApiContext } from "./context.ts";

/** The object of a node that has its row is there once the saga has begun; before that `absent` says what is missing. */
export async function callObject<T>(
  c: ApiContext,
  nodeId: string,
  absent: ErrorCode,
  call: (node: NodeContract) => Promise<T>,
): Promise<T> {
  try {
    return await callNode(c.env, nodeId, call);
  } catch (thrown) {
    if (errorCodeOf(thrown) !== "node_not_found") throw thrown;
    throw new OrreryError(absent, "The node is just being created.", {}, { cause: thrown });
  }
}
