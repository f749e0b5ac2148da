/** Whether a path stays inside the directory that it is relative to, and its normal form. */
export type Containment =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly reason: string };

const MAX_SEGMENT_BYTES = 255;

/**
 * The rule for every path that a chain's files name: relative, no `..`, no empty or control-character parts.
 * It looks at the text alone; symbolic links are the business of whoever touches the disk.
 * `.` parts and doubled slashes are dropped from the normal form, which is never empty.
 */
export function containedPath(path: string): Containment {
  if (path.startsWith("/")) return refused("must be relative to the data directory");
  if (path.includes("\\")) return refused("must separate its parts with /");
  if (hasControlCharacter(path)) return refused("must not hold control characters");
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.length === 0) return refused("must name something inside the data directory");
  if (parts.includes("..")) return refused("must not hold `..`");
  if (parts.some((part) => new TextEncoder().encode(part).length > MAX_SEGMENT_BYTES)) {
    return refused(`must not hold a part longer than ${MAX_SEGMENT_BYTES} bytes`);
  }
  return { ok: true, path: parts.join("/") };
}

/**
 * Whether a symbolic link at `linkPath` may point to `target`. The link's parent must be given with its own links resolved;
 * then leading `..` are exact, and the rest goes down. A `..` after a name is refused: the name may itself be a link.
 */
export function containedLink(linkPath: string, target: string): Containment {
  if (target.startsWith("/")) return refused("must not point to an absolute path");
  if (target === "" || target.includes("\\") || hasControlCharacter(target))
    return refused("must point to a plain path");
  const parts = linkPath.split("/").slice(0, -1);
  let isDown = false;
  for (const part of target.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") {
      isDown = true;
      parts.push(part);
    } else if (isDown) return refused("must not go up again after a name");
    else if (parts.pop() === undefined) return refused("must not point outside the data directory");
  }
  return { ok: true, path: parts.length === 0 ? "." : parts.join("/") };
}

function refused(reason: string): Containment {
  return { ok: false, reason };
}

function hasControlCharacter(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}
