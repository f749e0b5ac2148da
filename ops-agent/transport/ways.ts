import type { Logger } from "../log.ts";
import type { AgentSettings } from "../settings.ts";
import { BridgeWay } from "./grpc-way.ts";
import type { Way } from "./way.ts";
import { DirectWay } from "./websocket.ts";

/** The ways that the settings name, in the order of preference. The direct one is always there. */
export function waysFor({ bridge, control_url: controlUrl }: AgentSettings, log: Logger): readonly [Way, ...Way[]] {
  const direct = new DirectWay(controlUrl, log);
  return bridge === undefined ? [direct] : [new BridgeWay(bridge), direct];
}
