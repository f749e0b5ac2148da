import { z } from "@hono/zod-openapi";
import { bytesToHex } from "@noble/hashes/utils.js";
import { controlSigners } from "../../../domain/identity/control-key.ts";
import { defineRoute, jsonResponse, newRouter } from "../define-route.ts";
import { pageOf } from "../pages.ts";

const controlKeySchema = z
  .strictObject({
    key_id: z.string(),
    public_key: z.string().openapi({ description: "Ed25519, 64 hex digits: what an agent pins." }),
    status: z.enum(["current", "previous"]).openapi({
      description: "The current key signs for every agent that trusts it, the one before for those that were away.",
    }),
  })
  .openapi("ControlKey");

const list = defineRoute(
  { scope: "admin" },
  {
    method: "get",
    path: "/api/v1/admin/control-keys",
    tags: ["Operations"],
    summary: "Show the public keys that agents believe",
    responses: { 200: jsonResponse(pageOf(controlKeySchema), "One key, or two after the first rotation.") },
  },
);

export const controlKeyRoutes = newRouter().openapi(list, (c) => {
  const { MASTER_SECRET, CONTROL_KEY_VERSION } = c.get("config");
  const items = controlSigners(MASTER_SECRET, CONTROL_KEY_VERSION).map(({ keyId, publicKey }, index) => {
    return { key_id: keyId, public_key: bytesToHex(publicKey), status: index === 0 ? "current" : "previous" } as const;
  });
  return c.json({ items, next_cursor: null }, 200);
});
