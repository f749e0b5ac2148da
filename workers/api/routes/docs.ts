import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { ApiEnv } from "../context.ts";
import { defineRoute, newRouter } from "../define-route.ts";
import { docsPage } from "../docs-page.ts";
import { apiDocument } from "../openapi.ts";

const openapi = defineRoute(
  { scope: "public" },
  {
    method: "get",
    path: "/api/v1/openapi.json",
    tags: ["System"],
    summary: "This document",
    responses: { 200: { description: "OpenAPI 3.1, as JSON." } },
  },
);

const docs = defineRoute(
  { scope: "public" },
  {
    method: "get",
    path: "/api/v1/docs",
    tags: ["System"],
    summary: "This document for people",
    responses: { 200: { description: "A page.", content: { "text/html": { schema: z.string() } } } },
  },
);

/** @param app the finished application, which the answers describe */
export function docsRoutes(app: () => OpenAPIHono<ApiEnv>) {
  return newRouter()
    .openapi(openapi, (c) => {
      const text = JSON.stringify(apiDocument(app()));
      return c.newResponse(text, 200, { "content-type": "application/json" });
    })
    .openapi(docs, (c) => {
      const nonce = crypto.randomUUID();
      c.header("content-security-policy", `default-src 'none'; style-src 'nonce-${nonce}'; frame-ancestors 'none'`);
      return c.html(docsPage(apiDocument(app()), nonce), 200);
    });
}
