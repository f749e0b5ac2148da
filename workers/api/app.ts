import type { OpenAPIHono } from "@hono/zod-openapi";
import { OrreryError } from "../../domain/errors.ts";
import type { ApiEnv } from "./context.ts";
import { newRouter } from "./define-route.ts";
import { correlation } from "./middleware/correlation.ts";
import { logging } from "./middleware/logging.ts";
import { metrics } from "./middleware/metrics.ts";
import { securityHeaders } from "./middleware/security-headers.ts";
import { settings } from "./middleware/settings.ts";
import { tracing } from "./middleware/tracing.ts";
import { registerComponents } from "./openapi.ts";
import { problemOf } from "./problem.ts";
import { agentEnrolmentRoutes } from "./routes/agent-enrolment.ts";
import { agentSessionRoutes } from "./routes/agent-session.ts";
import { apiKeyRoutes } from "./routes/api-keys.ts";
import { chainRoutes } from "./routes/chains.ts";
import { commandRoutes } from "./routes/commands.ts";
import { controlKeyRoutes } from "./routes/control-keys.ts";
import { docsRoutes } from "./routes/docs.ts";
import { nodeKeyRoutes } from "./routes/node-keys.ts";
import { nodeLifeRoutes } from "./routes/node-life.ts";
import { nodeRoutes } from "./routes/nodes.ts";
import { reenrolmentRoutes } from "./routes/reenrolment.ts";
import { repairRoutes } from "./routes/repair.ts";
import { subscriptionRoutes } from "./routes/subscriptions.ts";
import { systemRoutes } from "./routes/system.ts";

/**
 * The HTTP API. The middleware stands in the order of source 000, "HTTP Request Flow": correlation, tracing, metrics,
 * logging here; authentication, rate limit and scope in front of each route (define-route.ts).
 */
export function createApp(): OpenAPIHono<ApiEnv> {
  const app = newRouter();
  app.use(correlation, tracing, metrics, logging, securityHeaders, settings);
  registerComponents(app);
  app.route("/", systemRoutes);
  app.route(
    "/",
    docsRoutes(() => app),
  );
  app.route("/", apiKeyRoutes);
  app.route("/", chainRoutes);
  app.route("/", subscriptionRoutes);
  app.route("/", nodeRoutes);
  app.route("/", nodeLifeRoutes);
  app.route("/", reenrolmentRoutes);
  app.route("/", commandRoutes);
  app.route("/", nodeKeyRoutes);
  app.route("/", agentEnrolmentRoutes);
  app.route("/", agentSessionRoutes);
  app.route("/", controlKeyRoutes);
  app.route("/", repairRoutes);
  const allowedMethods = methodTable(app);
  app.notFound((c) => {
    const allow = allowedMethods(c.req.path);
    if (allow.length === 0) throw new OrreryError("not_found", "There is nothing at this path.");
    throw new OrreryError("method_not_allowed", `${c.req.method} is not possible here.`, { allow });
  });
  app.onError(problemOf);
  return app;
}

/** Which methods each path has, so that a known path with another method is told apart from an unknown path. */
function methodTable(app: OpenAPIHono<ApiEnv>): (path: string) => string[] {
  const routes = app.openAPIRegistry.definitions.flatMap((definition) =>
    definition.type === "route"
      ? [{ method: definition.route.method.toUpperCase(), pattern: patternOf(definition.route.path) }]
      : [],
  );
  return (path) => [...new Set(routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
}

function patternOf(path: string): RegExp {
  const parts = path.split("/").map((part) => (part.startsWith("{") ? "[^/]+" : part.replaceAll(".", "\\.")));
  return new RegExp(`^${parts.join("/")}$`);
}
