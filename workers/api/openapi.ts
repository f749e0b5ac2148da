import type { OpenAPIHono } from "@hono/zod-openapi";
import { ERRORS, type ErrorCode, isErrorCode } from "../../domain/errors.ts";
import type { ApiEnv } from "./context.ts";
import { COMMON_ERRORS, problemSchema } from "./define-route.ts";

export type ApiDocument = ReturnType<OpenAPIHono<ApiEnv>["getOpenAPI31Document"]>;

/** The API's description, made from the schemas that check the requests. */
export function apiDocument(app: OpenAPIHono<ApiEnv>): ApiDocument {
  const document = app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Orrery API",
      version: "1",
      description:
        "Every POST carries an `Idempotency-Key`; lists go on with `next_cursor`; errors are problem+json with a `code`.",
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
  app.openAPIRegistry.registerComponent("securitySchemes", "nodeToken", {
    type: "http",
    scheme: "bearer",
    description: "The token of a node's agent.",
  });
}

interface Operation {
  readonly security?: readonly unknown[] | undefined;
  readonly requestBody?: unknown;
  readonly parameters?: readonly unknown[] | undefined;
  readonly "x-orrery-errors"?: unknown;
}

function errorResponses(operation: Operation): Record<string, object> {
  const codes = new Set<ErrorCode>(COMMON_ERRORS);
  if ((operation.security ?? []).length > 0) codes.add("unauthenticated").add("insufficient_scope");
  if (operation.parameters !== undefined || operation.requestBody !== undefined) codes.add("invalid_request");
  if (operation.requestBody !== undefined) {
    codes.add("malformed_json").add("unsupported_media_type").add("body_too_large");
  }
  const own = operation["x-orrery-errors"];
  if (Array.isArray(own)) for (const code of own) if (isErrorCode(code)) codes.add(code);
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code].status);
  return Object.fromEntries([...byStatus].map(([status, list]) => [String(status), problemResponse(list)]));
}

function problemResponse(codes: readonly ErrorCode[]): object {
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
  };
}
