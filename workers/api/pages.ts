import { z } from "@hono/zod-openapi";
import type { PagePosition, PageRequest } from "../../db/page.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";

const { pageSize, pageSizeMax } = DEFAULTS.api;

/** The query of every list. */
export const pageQuery = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(pageSizeMax)
    .default(pageSize)
    .openapi({ description: `How many entries to answer, at most ${pageSizeMax}.` }),
  cursor: z.string().max(512).optional().openapi({ description: "`next_cursor` of the page before, unchanged." }),
};

/** A page of `item`. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.strictObject({
    items: z.array(item),
    next_cursor: z.string().nullable().openapi({ description: "Null on the last page." }),
  });
}

/** An opaque place in one list: the list's name keeps a cursor from being used in another. */
export function encodeCursor(list: string, position: readonly (string | number)[]): string {
  const bytes = new TextEncoder().encode(JSON.stringify([list, ...position]));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}

/**
 * Reads a cursor of that list.
 * @throws invalid_cursor for what this list never gave out
 */
export function decodeCursor<T extends z.ZodType>(list: string, schema: T, cursor: string): z.output<T> {
  const parts = z.tuple([z.literal(list)], z.unknown()).safeParse(fromBase64Json(cursor));
  const position = parts.success ? schema.safeParse(parts.data.slice(1)) : null;
  if (position?.success !== true) throw new OrreryError("invalid_cursor", "The cursor is not one of this list.");
  return position.data;
}

function fromBase64Json(text: string): unknown {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** The last moment whose year has four digits: Postgres reads no longer one. */
const MAX_EPOCH_MS = 253_402_300_799_999;
const newestFirst = z.tuple([z.number().int().min(0).max(MAX_EPOCH_MS), z.string().max(64)]);

/** The page that a request asks of a list which shows the newest first; one row more tells whether there is another. */
export function newestPage(
  list: string,
  query: { readonly limit: number; readonly cursor?: string | undefined },
  isId: (id: string) => boolean = isUuid,
): PageRequest {
  if (query.cursor === undefined) return { limit: query.limit + 1, after: null };
  const [createdAt, id] = decodeCursor(list, newestFirst, query.cursor);
  if (!isId(id)) throw new OrreryError("invalid_cursor", "The cursor is not one of this list.");
  return { limit: query.limit + 1, after: { createdAt: new Date(createdAt), id } };
}

/** Cuts the extra row off and says where the next page begins. */
export function toPage<Row, Item>(
  rows: readonly Row[],
  limit: number,
  toItem: (row: Row) => Item,
  cursorOf: (last: Row) => string,
): { items: Item[]; next_cursor: string | null } {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = rows.length > limit && last !== undefined ? cursorOf(last) : null;
  return { items: shown.map(toItem), next_cursor: next };
}

/** The cursor after a row of a list that shows the newest first. */
export function newestCursor(list: string): (last: PagePosition) => string {
  return ({ createdAt, id }) => encodeCursor(list, [createdAt.getTime(), id]);
}

function isUuid(text: string): boolean {
  return z.uuid().safeParse(text).success;
}
