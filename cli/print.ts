import { stripVTControlCharacters } from "node:util";

/** One column of a table for people: its heading, and its cell of a row. */
export type Columns<T> = Readonly<Record<string, (row: T) => string>>;

/** Rows under their headings, as wide as their widest cell. */
export function table<T>(columns: Columns<T>, rows: readonly T[]): string {
  const headings = Object.keys(columns);
  const lines = [headings, ...rows.map((row) => Object.values(columns).map((cell) => plain(cell(row))))];
  const widths = headings.map((_, index) => Math.max(...lines.map((line) => (line[index] ?? "").length)));
  const texts = lines.map((line) => line.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  "));
  return `${texts.map((text) => text.trimEnd()).join("\n")}\n`;
}

/** Names and values below each other; what is null or undefined is left out. */
export function record(fields: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length), 0);
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${plain(textOf(value))}\n`).join("");
}

/** A text of several lines as it is. */
export function lines(text: string): string {
  return `${text.trimEnd().split("\n").map(plain).join("\n")}\n`;
}

/** A time of the API for people: UTC, to the second. */
export function time(rfc3339: string): string {
  return rfc3339.replace("T", " ").replace(/(\.\d+)?Z$/, "Z");
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** On one line and without control sequences: what agents and chains report must not steer a terminal. */
function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}+/gu, " ");
}
