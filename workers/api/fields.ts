import { z } from "@hono/zod-openapi";

/** Pieces of the API's schemas. */

export const uuid = z.uuid().openapi({ example: "019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44" });

const LINE = "^[^\\p{Cc}\\p{Cs}]*$";

/** One line for people: Postgres takes no NUL and no half character, a terminal no control characters. */
export const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(new RegExp(LINE, "u"), "must not hold control characters")
    // The library would write the flag into the pattern.
    .openapi({ pattern: LINE });

/** Chain ids, node types, providers and regions. */
export const slug = z
  .string()
  .max(64)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, "must be lower-case letters, digits, - and _");

export const instant = z.iso.datetime().openapi({ example: "2026-11-30T12:00:00.000Z" });
export const maybeInstant = z.iso.datetime().nullable();

export const toInstant = (date: Date): string => date.toISOString();
export const toMaybeInstant = (date: Date | null): string | null => date?.toISOString() ?? null;
export const msToInstant = (ms: number): string => new Date(ms).toISOString();
export const msToMaybeInstant = (ms: number | null): string | null => (ms === null ? null : msToInstant(ms));
