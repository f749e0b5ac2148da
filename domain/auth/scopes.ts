/** What an API key may do. `admin` is the operator's and includes the others. */
export const SCOPES = [
  "admin",
  "nodes:read",
  "nodes:write",
  "subscriptions:read",
  "subscriptions:write",
  "chains:read",
] as const;
export type Scope = (typeof SCOPES)[number];

/** What a route asks for: a key's scope, a node's token (`agent`), or nothing (`public`). */
export type RouteScope = Scope | "agent" | "public";

/** Whether a key with these scopes may use a route that asks for `required`. */
export function allows(held: readonly string[], required: Scope): boolean {
  return held.includes("admin") || held.includes(required);
}
