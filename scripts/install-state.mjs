import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The fields of package.json that the lock file repeats for the root package. */
const DEPENDENCY_FIELDS = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/**
 * Whether `node_modules` holds what package.json and package-lock.json ask for.
 * npm writes `node_modules/.package-lock.json` as the last act of a successful install, after the install scripts,
 * so it is the record to compare with; a directory that an interrupted install left has none.
 *
 * @param {string} root the repository's directory
 * @returns {string | null} why an install is needed, or null when nothing is
 */
export function installNeeded(root) {
  const installed = readJson(join(root, "node_modules/.package-lock.json"));
  if (installed === null) return "the dependencies are not installed yet";
  if (!existsSync(join(root, "node_modules/.bin/node"))) return "the pinned Node.js is missing";
  const lock = readJson(join(root, "package-lock.json"));
  if (lock === null) return "package-lock.json cannot be read";
  const changed = DEPENDENCY_FIELDS.some(
    (field) => !sameEntries(readJson(join(root, "package.json"))?.[field], lock.packages[""][field]),
  );
  if (changed) return "package.json and package-lock.json differ";
  const stale = stalePackage(lock.packages, installed.packages);
  return stale === null ? null : `${stale} is not the version that package-lock.json names`;
}

/** The first package that differs; an optional one may be absent, because npm skips other platforms' binaries. */
function stalePackage(wanted, installed) {
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === "") continue;
    const present = installed[path];
    if (present === undefined ? entry.optional !== true : present.version !== entry.version) return path;
  }
  return Object.keys(installed).find((path) => wanted[path] === undefined) ?? null;
}

function sameEntries(left = {}, right = {}) {
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => left[name] === right[name]);
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
}
