import { createMiddleware } from "hono/factory";
import { allows, type Scope } from "../../../domain/auth/scopes.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { type ApiEnv, principalOf } from "../context.ts";

/**
 * Lets only keys with the scope pass.
 * @param bootstrap whether the bootstrap secret may use the route too: to mint the first key, and for nothing else
 */
export function requireScope(required: Scope, bootstrap: boolean) {
  return createMiddleware<ApiEnv>(async (c, next) => {
    const principal = principalOf(c);
    const allowed = principal.kind === "bootstrap" ? bootstrap : allows(principal.scopes, required);
    if (!allowed) {
      throw new OrreryError("insufficient_scope", `This route needs the scope ${required}.`, {
        required_scope: required,
      });
    }
    await next();
  });
}
