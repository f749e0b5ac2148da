import { z } from "@hono/zod-openapi";
import { findChain, listChains, putChain } from "../../../db/chains.ts";
import { withDatabase } from "../../../db/client.ts";
import { chainContentHash } from "../../../domain/chain/hash.ts";
import { parseChainFiles } from "../../../domain/chain/parse.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { writeChainFiles } from "../../chain-files.ts";
import { defineRoute, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { chainSchema, toChain } from "../documents/chain.ts";
import { slug } from "../fields.ts";
import { decodeCursor, encodeCursor, pageOf, pageQuery, toPage } from "../pages.ts";

const chainPath = z.strictObject({ chain: slug });
const files = z
  .strictObject({
    files: z.record(z.string().max(128), z.string()).openapi({
      description: "Text by file name: `profile.yaml`, `runtime.yaml`, `observation.yaml`, `recipes/<node type>.yaml`.",
    }),
  })
  .openapi("ChainFiles");

/** Room for every file at its longest, with what JSON adds. */
const PUSH_LIMIT_BYTES = 2 * DEFAULTS.chain.files * DEFAULTS.chain.fileBytes;

const list = defineRoute(
  { scope: "chains:read" },
  {
    method: "get",
    path: "/api/v1/chains",
    tags: ["Chains"],
    summary: "List the pushed chains by id",
    request: { query: z.strictObject(pageQuery) },
    responses: { 200: jsonResponse(pageOf(chainSchema), "A page of chains.") },
  },
);

const get = defineRoute(
  { scope: "chains:read", errors: ["chain_not_found"] },
  {
    method: "get",
    path: "/api/v1/chains/{chain}",
    tags: ["Chains"],
    summary: "Show a chain's pushed version",
    request: { params: chainPath },
    responses: { 200: jsonResponse(chainSchema, "The chain.") },
  },
);

const push = defineRoute(
  { scope: "admin", errors: ["chain_invalid"], bodyLimitBytes: PUSH_LIMIT_BYTES },
  {
    method: "put",
    path: "/api/v1/chains/{chain}",
    tags: ["Chains"],
    summary: "Push a chain's files; nodes that exist keep the version they were born with",
    request: { params: chainPath, body: jsonRequest(files) },
    responses: { 200: jsonResponse(chainSchema, "The chain as it is now.") },
  },
);

const LIST = "chains";

export const chainRoutes = newRouter()
  .openapi(list, async (c) => {
    const config = c.get("config");
    const { limit, cursor } = c.req.valid("query");
    const after = cursor === undefined ? null : decodeCursor(LIST, z.tuple([slug]), cursor)[0];
    const rows = await withDatabase(config, (db) => listChains(db, config.TENANT, limit + 1, after));
    return c.json(
      toPage(rows, limit, toChain, ({ id }) => encodeCursor(LIST, [id])),
      200,
    );
  })
  .openapi(get, async (c) => {
    const config = c.get("config");
    const { chain } = c.req.valid("param");
    const row = await withDatabase(config, (db) => findChain(db, config.TENANT, chain));
    if (row === null) throw new OrreryError("chain_not_found", `There is no chain ${chain}.`);
    return c.json(toChain(row), 200);
  })
  .openapi(push, async (c) => {
    const config = c.get("config");
    const { chain } = c.req.valid("param");
    const pushed = c.req.valid("json").files;
    const { profile } = parseChainFiles(chain, pushed);
    const contentHash = await chainContentHash(pushed);
    // The files first: the pointer must never name a version that is not there.
    await writeChainFiles(c.env.CHAINS, config.TENANT, chain, contentHash, pushed);
    const row = {
      tenant: config.TENANT,
      id: chain,
      contentHash,
      displayName: profile.display_name,
      profile,
      pushedAt: new Date(),
    };
    await withDatabase(config, (db) => putChain(db, row));
    return c.json(toChain(row), 200);
  });
