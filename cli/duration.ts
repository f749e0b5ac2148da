import { InvalidArgumentError } from "commander";

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads an option such as `90s`, `15m`, `12h` or `30d`. @returns milliseconds */
export function parseDuration(text: string): number {
  const match = /^([1-9]\d{0,5})([smhd])$/.exec(text);
  const [, count, unit] = match ?? [];
  const unitMs = unit === undefined ? undefined : UNIT_MS[unit];
  if (unitMs === undefined) throw new InvalidArgumentError("Give a number and s, m, h or d, such as 30d.");
  return Number(count) * unitMs;
}

/** Reads a whole number of 1 or more. */
export function parseCount(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError("Give a whole number of 1 or more.");
  return Number(text);
}
