import { createMiddleware } from "hono/factory";
import { type Config, parseConfig } from "../../../domain/config.ts";
import type { ApiEnv } from "../context.ts";

const parsed = new WeakMap<object, Config>();

/** The deployment's settings, parsed once per isolate; a missing one names itself in the log and answers `configuration_invalid`. */
export const settings = createMiddleware<ApiEnv>(async (c, next) => {
  const config = parsed.get(c.env) ?? parseConfig(c.env);
  parsed.set(c.env, config);
  c.set("config", config);
  await next();
});
