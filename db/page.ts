import { and, eq, lt, or, type SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/** The last row of the page before, in lists that show the newest first. */
export interface PagePosition {
  readonly createdAt: Date;
  readonly id: string;
}

export interface PageRequest {
  readonly limit: number;
  readonly after: PagePosition | null;
}

/** What comes after `position` in the order (created_at desc, id desc). */
export function pageAfter(
  position: PagePosition | null,
  table: { readonly createdAt: PgColumn; readonly id: PgColumn },
): SQL | undefined {
  if (position === null) return undefined;
  const sameInstant = and(eq(table.createdAt, position.createdAt), lt(table.id, position.id));
  return or(lt(table.createdAt, position.createdAt), sameInstant);
}
