import { and, eq, type SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/** Whose rows a request may see: a customer's own, or for an operator (`userId` null) the whole tenant's. */
export interface Viewer {
  readonly tenant: string;
  readonly userId: string | null;
}

/** The condition that every query on a customer's table carries, so that a stranger's id finds nothing. */
export function visibleTo(viewer: Viewer, table: { readonly tenant: PgColumn; readonly userId: PgColumn }): SQL {
  const tenant = eq(table.tenant, viewer.tenant);
  return viewer.userId === null ? tenant : (and(tenant, eq(table.userId, viewer.userId)) ?? tenant);
}
