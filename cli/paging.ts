import type { Command } from "commander";
import type { z } from "zod";
import type { ApiClient } from "./api.ts";
import { parseCount } from "./duration.ts";
import { type Columns, table } from "./print.ts";
import type { Session } from "./session.ts";

export interface Paging {
  readonly limit: number;
  readonly cursor?: string;
  readonly all?: boolean;
}

interface Page<T> {
  readonly items: readonly T[];
  readonly next_cursor: string | null;
}

export function addPaging(command: Command): Command {
  return command
    .option("--limit <count>", "how many to show at once", parseCount, 50)
    .option("--cursor <cursor>", "go on where an earlier page ended")
    .option("--all", "show every page");
}

/** One page of a list, or with `all` every page as one. */
export async function readPages<T>(
  api: ApiClient,
  path: string,
  page: z.ZodType<Page<T>>,
  { limit, cursor, all = false }: Paging,
  query: Readonly<Record<string, string | undefined>> = {},
): Promise<Page<T>> {
  const items: T[] = [];
  let next: string | null = cursor ?? null;
  do {
    const answer: Page<T> = await api.get(path, page, { ...query, limit, cursor: next ?? undefined });
    items.push(...answer.items);
    next = answer.next_cursor;
  } while (all && next !== null);
  return { items, next_cursor: next };
}

/** The page as a table, and how to see what comes after it. */
export function showPage<T>(session: Session, page: Page<T>, columns: Columns<T>): void {
  session.result(page, () => table(columns, page.items));
  if (page.next_cursor !== null) session.remark(`More with --cursor ${page.next_cursor}, or all with --all.`);
}
