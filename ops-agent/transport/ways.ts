import type { Logger } from "../log.ts";
import type { AgentSettings } from "../settings.ts";
import type { Way } from "./way.ts";
import { DirectWay } from "./websocket.ts";

/** The ways that the settings name, in the order of preference. The direct one is always there. */
export function waysFor(settings: AgentSettings, log: Logger): readonly [Way, ...Way[]] {
  return [new DirectWay(settings.control_url, log)];
}
