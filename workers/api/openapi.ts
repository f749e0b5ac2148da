import type { OpenAPIHono } from "@hono/zod-openapi";
import { ERRORS, type ErrorCode, isErrorCode } from "../../domain/errors.ts";
import type { ApiEnv } from "./context.ts";
import { COMMON_ERRORS, problemSchema, SCOPE_EXTENSION } from "./define-route.ts";

export type ApiDocument = ReturnType<OpenAPIHono<ApiEnv>["getOpenAPI31Document"]>;

/** The API's description, made from the schemas that check the requests. */
export function apiDocument(app: OpenAPIHono<ApiEnv>): ApiDocument {
  const document = app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Orrery API",
      version: "1",
      description:
        "Every POST with an API key carries an `Idempotency-Key`; lists go on with `next_cursor`; errors are problem+json with a `code`.",
      license: { name: "MIT" },
    },
    servers: [{ url: "/" }],
  });
  for (const path of Object.values(document.paths ?? {})) {
    for (const operation of [path.get, path.put, path.post]) {
      if (operation !== undefined) Object.assign(operation.responses ?? {}, errorResponses(operation));
    }
  }
  return document;
}

/** Registers what the routes' schemas refer to but do not declare. */
export function registerComponents(app: OpenAPIHono<ApiEnv>): void {
  app.openAPIRegistry.register("Problem", problemSchema);
  app.openAPIRegistry.registerComponent("securitySchemes", "apiKey", {
    type: "http",
    scheme: "bearer",
    description: "An API key, `orr_…`.",
  });
  app.openAPIRegistry.registerComponent("securitySchemes", "sessionTicket", {
    type: "apiKey",
    in: "header",
    name: "Authorization",
    description:
      "`Ticket` and the hex of an HMAC under the node token, for this node, generation, installation and epoch.",
  });
}

interface Operation {
  readonly requestBody?: unknown;
  readonly parameters?: readonly unknown[] | undefined;
  readonly [SCOPE_EXTENSION]?: unknown;
  readonly "x-orrery-errors"?: unknown;
}

function errorResponses(operation: Operation): Record<string, object> {
  const codes = new Set<ErrorCode>(COMMON_ERRORS);
  const scope = operation[SCOPE_EXTENSION];
  if (scope !== "public" && scope !== "agent") codes.add("unauthenticated").add("insufficient_scope");
  if (operation.parameters !== undefined || operation.requestBody !== undefined) codes.add("invalid_request");
  if (operation.requestBody !== undefined) {
    codes.add("unsupported_media_type").add("body_too_large");
    if (isJson(operation.requestBody)) codes.add("malformed_json");
  }
  const own = operation["x-orrery-errors"];
  if (Array.isArray(own)) for (const code of own) if (isErrorCode(code)) codes.add(code);
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code].status);
  return Object.fromEntries([...byStatus].map(([status, list]) => [String(status), problemResponse(list)]));
}

function isJson(requestBody: unknown): boolean {
  const { content }: { content?: object } = Object(requestBody);
  return content !== undefined && Object.hasOwn(content, "application/json");
}

function problemResponse(codes: readonly ErrorCode[]): object {
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
  };
}
