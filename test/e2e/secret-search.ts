import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** Something that must not be found, as bytes. */
export interface Secret {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface Finding {
  readonly secret: string;
  readonly form: string;
  readonly place: string;
}

interface Needle {
  readonly secret: string;
  readonly form: string;
  readonly bytes: Buffer;
}

/** Looks for secrets in bytes: in the clear, in hex and in base64, of the secret itself and of its hex text. */
export class SecretSearch {
  readonly #needles: readonly Needle[];

  constructor(secrets: readonly Secret[]) {
    this.#needles = secrets.flatMap(needlesOf);
  }

  in(place: string, content: Uint8Array | string): Finding[] {
    const bytes = Buffer.from(content);
    return this.#needles
      .filter((needle) => bytes.includes(needle.bytes))
      .map(({ secret, form }) => ({ secret, form, place }));
  }

  /** Every file below a directory that `isSearched` accepts, by its path below the directory. */
  below(directory: string, isSearched: (path: string) => boolean = () => true): Finding[] {
    return filesBelow(directory)
      .filter((path) => isSearched(path))
      .flatMap((path) => this.in(path, contentOf(join(directory, path))));
  }
}

export function filesBelow(directory: string): string[] {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)));
}

/** A file that ends while a directory of a running system is read holds nothing any more. */
function contentOf(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return new Uint8Array();
    throw error;
  }
}

function needlesOf({ name, bytes }: Secret): Needle[] {
  const raw = Buffer.from(bytes);
  const text = Buffer.from(raw.toString("hex"));
  const forms: [string, Buffer][] = [raw, text].flatMap((content, index) => {
    const of = index === 0 ? "" : " of hex";
    const hex = content.toString("hex");
    return [
      [`clear${of}`, content],
      [`hex${of}`, Buffer.from(hex)],
      [`upper-case hex${of}`, Buffer.from(hex.toUpperCase())],
      ...base64Forms(content).map(([form, needle]): [string, Buffer] => [`${form}${of}`, Buffer.from(needle)]),
    ] satisfies [string, Buffer][];
  });
  // Stored by two bytes a character where a text beside it is not plain.
  const wide = [text.toString(), raw.toString("base64")].map((each): [string, Buffer] => [
    "wide text",
    Buffer.from(each, "utf16le"),
  ]);
  return [...forms, ...wide].map(([form, needle]) => ({ secret: name, form, bytes: needle }));
}

/** As it stands inside of something longer, at each of the three places that it can have there; edges that depend on neighbours are cut. */
function base64Forms(content: Buffer): [string, string][] {
  return [0, 1, 2].flatMap((shift) => {
    const padded = Buffer.concat([Buffer.alloc(shift), content]);
    const own = padded.toString("base64").slice(Math.ceil((shift * 4) / 3), Math.floor((padded.length * 4) / 3));
    const url = own.replaceAll("+", "-").replaceAll("/", "_");
    return [
      [`base64 at ${shift}`, own],
      [`base64url at ${shift}`, url],
    ] satisfies [string, string][];
  });
}
