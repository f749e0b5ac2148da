import { z } from "zod";
import { ENDPOINT_SCHEMES } from "../node/endpoints.ts";
import {
  dataPath,
  duration,
  environment,
  httpPath,
  jsonPointer,
  portNumber,
  schemaVersion,
  slug,
  template,
  templateKey,
} from "./fields.ts";

/** runtime.yaml: how the chain node is run, which ports it listens on, and how to tell whether it has synced. */

const process = z.strictObject({
  /** The program, inside the data directory. */
  command: dataPath,
  args: z.array(template).max(256).default([]),
  env: environment.default({}),
  stop_signal: z.enum(["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP"]).default("SIGTERM"),
  stop_grace: duration.prefault("30s"),
});

const plainValue = z.union([z.string().max(256), z.number(), z.boolean(), z.null()]);
const expected = z.strictObject({ pointer: jsonPointer, equals: plainValue });
const located = z.strictObject({ pointer: jsonPointer });

const rpcMethod = z.string().regex(/^[A-Za-z][A-Za-z0-9_.]{0,127}$/, "must be the name of a JSON-RPC method");
const rpcParams = z.array(z.json()).max(16).default([]);

const jsonRpcStatus = z.strictObject({
  kind: z.literal("json_rpc"),
  port: templateKey,
  path: httpPath.default("/"),
  timeout: duration.prefault("2s"),
  /** Synced when the result, at the pointer, equals the value; syncing when it is anything else. */
  synced: expected.extend({ method: rpcMethod, params: rpcParams }),
  height: located.extend({ method: rpcMethod, params: rpcParams }).optional(),
});

const httpStatus = z.strictObject({
  kind: z.literal("http"),
  port: templateKey,
  path: httpPath,
  timeout: duration.prefault("2s"),
  /** Without it an answer of 2xx is enough. */
  synced: expected.optional(),
  height: located.optional(),
});

const ENDPOINTS_MAX = 16;

export const runtimeSchema = z
  .strictObject({
    schema_version: schemaVersion,
    chain_profile_id: slug,
    process,
    /** Default numbers; an agent's configuration may override each. */
    ports: z.record(templateKey, portNumber),
    /** The ports that users are told of, with the scheme of their address. */
    endpoints: z
      .record(templateKey, z.enum(ENDPOINT_SCHEMES))
      // An agent's report of them must fit its session's first message.
      .refine((endpoints) => Object.keys(endpoints).length <= ENDPOINTS_MAX, `must be ${ENDPOINTS_MAX} at most`)
      .default({}),
    node_status: z.discriminatedUnion("kind", [jsonRpcStatus, httpStatus]),
  })
  .superRefine((runtime, context) => {
    const declared = (port: string) => Object.hasOwn(runtime.ports, port);
    const message = "must be declared in ports";
    const { port } = runtime.node_status;
    if (!declared(port)) context.addIssue({ code: "custom", path: ["node_status", "port"], input: port, message });
    for (const [name, scheme] of Object.entries(runtime.endpoints)) {
      if (!declared(name)) context.addIssue({ code: "custom", path: ["endpoints", name], input: scheme, message });
    }
  });

export type ChainRuntime = z.output<typeof runtimeSchema>;
export type NodeStatusCheck = ChainRuntime["node_status"];
