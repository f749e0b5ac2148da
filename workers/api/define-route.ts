import { createRoute, OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import type { RouteScope } from "../../domain/auth/scopes.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { type ErrorCode, OrreryError } from "../../domain/errors.ts";
import type { ApiEnv } from "./context.ts";
import { authentication } from "./middleware/authentication.ts";
import { bodyOfType, jsonBody, limitBody } from "./middleware/body.ts";
import { rateLimit } from "./middleware/rate-limit.ts";
import { requireScope } from "./middleware/scope.ts";

/** Where a route's scope stands in the OpenAPI document. */
export const SCOPE_EXTENSION = "x-orrery-scope";

export interface RoutePolicy {
  readonly scope: RouteScope;
  /** The errors that this route answers beside those of every route. */
  readonly errors?: readonly ErrorCode[];
  /** Whether the bootstrap secret may be used in place of a key. */
  readonly bootstrap?: boolean;
  readonly bodyLimitBytes?: number;
}

/** A router of this API: what a schema refuses is answered in the API's own form. */
export function newRouter(): OpenAPIHono<ApiEnv> {
  return new OpenAPIHono<ApiEnv>({
    defaultHook: (result) => {
      if (!result.success) throw invalidRequest(result.target, result.error.issues);
    },
  });
}

/**
 * One route of the API. Its policy puts the middleware in the source's order in front of it: authentication, rate limit,
 * scope; then the body is read, and no earlier.
 */
export function defineRoute<P extends string, R extends Omit<RouteConfig, "path"> & { path: P }>(
  policy: RoutePolicy,
  config: R,
) {
  return createRoute({
    ...config,
    middleware: gate(policy, config),
    security: config.security ?? securityOf(policy.scope),
    [SCOPE_EXTENSION]: policy.scope,
    "x-orrery-errors": policy.errors ?? [],
  });
}

function securityOf(scope: RouteScope): Record<string, string[]>[] {
  if (scope === "public") return [];
  return [{ [scope === "agent" ? "sessionTicket" : "apiKey"]: [] }];
}

/** The header that every POST of a key's holder carries. */
export const idempotencyHeaders = z.object({
  "idempotency-key": z
    .string()
    .regex(new RegExp(`^[\\x21-\\x7e]{1,${DEFAULTS.api.idempotencyKeyMaxLength}}$`), "must be visible ASCII")
    .openapi({
      description: "Unique for ever: the same request with the same key is done once.",
      example: "create-node-42",
    }),
});

/** A JSON body; nothing that the schema does not know is accepted. */
export function jsonRequest<T extends z.ZodType>(schema: T, required = true) {
  return { required, content: { "application/json": { schema } } };
}

export const PROTOBUF = "application/protobuf";

/** A body of bytes: one message of the agents' protocol, which the route decodes itself. */
export function protobufContent(message: string) {
  const schema = z.string().openapi({ format: "binary", description: `One \`${message}\`.` });
  return { [PROTOBUF]: { schema } };
}

export function jsonResponse<T extends z.ZodType>(schema: T, description: string) {
  return { description, content: { "application/json": { schema } } };
}

function gate(policy: RoutePolicy, config: Pick<RouteConfig, "request">): MiddlewareHandler<ApiEnv>[] {
  const { scope } = policy;
  const chain: MiddlewareHandler<ApiEnv>[] = [];
  if (scope === "public") chain.push(rateLimit);
  // An agent's route checks and counts what it shows itself, see assertAgent.
  else if (scope !== "agent") chain.push(authentication, rateLimit, requireScope(scope, policy.bootstrap ?? false));
  const body = config.request?.body;
  if (body === undefined) return chain;
  const isJson = Object.hasOwn(body.content, "application/json");
  chain.push(limitBody(policy.bodyLimitBytes), isJson ? jsonBody(body.required ?? false) : bodyOfType(PROTOBUF));
  return chain;
}

const PATH_LENGTH = 200;

/** Names what is wrong and where; the value itself is not repeated, because it may be a secret. */
function invalidRequest(target: string, issues: readonly z.core.$ZodIssue[]): OrreryError {
  if (target === "header" && issues.some(({ path }) => path[0] === "idempotency-key")) {
    return new OrreryError("idempotency_key_required", "The Idempotency-Key header is missing or malformed.");
  }
  const named = issues.flatMap((issue) => {
    const path = issue.path.map(String);
    const keys = issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...path, key]) : [path];
    const message = issue.code === "unrecognized_keys" ? "is not known here" : issue.message;
    return keys.map((at) => ({ in: target === "json" ? "body" : target, path: shortened(at.join(".")), message }));
  });
  const [first] = named;
  const detail = first === undefined ? "The request is not valid." : `${first.in} ${first.path}: ${first.message}`;
  return new OrreryError("invalid_request", detail, { issues: named.slice(0, DEFAULTS.api.issuesShown) });
}

/** The names of unknown fields are the caller's and may be of any length. */
function shortened(path: string): string {
  return path.length <= PATH_LENGTH ? path : `${path.slice(0, PATH_LENGTH).toWellFormed()}...`;
}

/** The error document of every answer that is not a success. */
export const problemSchema = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string().openapi({ description: "One of the registry below; programs look at this alone." }),
    detail: z.string(),
    advice: z.string(),
    correlation_id: z.string(),
  })
  .openapi("Problem");

/** The errors that any route can answer. */
export const COMMON_ERRORS: readonly ErrorCode[] = ["rate_limited", "database_unavailable", "internal"];
