import type { Context } from "hono";
import type { Viewer } from "../../db/viewer.ts";
import type { Config } from "../../domain/config.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { TraceContext } from "./trace-context.ts";

/** Who sent the request. A route of scope `public` or `agent` has no API key behind it. */
export type Principal =
  | {
      readonly kind: "api_key";
      readonly id: string;
      readonly userId: string | null;
      readonly scopes: readonly string[];
    }
  | { readonly kind: "bootstrap"; readonly secretHash: string };

export interface ApiEnv {
  Bindings: Env;
  Variables: {
    config: Config;
    correlationId: string;
    trace: TraceContext;
    principal: Principal | undefined;
  };
}

export type ApiContext = Context<ApiEnv>;

/** The principal of a route that asks for a key's scope; the scope middleware has let nobody else pass. */
export function principalOf(c: ApiContext): Principal {
  const principal = c.get("principal");
  if (principal === undefined) throw new OrreryError("unauthenticated", "This route needs an API key.");
  return principal;
}

/** Whose rows the request may see. */
export function viewerOf(c: ApiContext): Viewer {
  const principal = principalOf(c);
  return { tenant: c.get("config").TENANT, userId: principal.kind === "api_key" ? principal.userId : null };
}

/** How audit rows, sagas and commands name who asked. */
export function actorOf(c: ApiContext): string {
  const principal = principalOf(c);
  return principal.kind === "api_key" ? `key:${principal.id}` : "bootstrap";
}

/** Sets a header of the answer. An upgrade's answer carries a socket and cannot be rebuilt with other headers. */
export function setHeader(c: ApiContext, name: string, value: string): void {
  if (c.res.status !== 101) c.header(name, value);
}
