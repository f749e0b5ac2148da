/**
 * Reduces the repository's package.json and package-lock.json, in the current directory, to the packages that are named:
 * `node only-dependencies.mjs <package>...`. What they depend on keeps its place in the lock file, and `npm ci` installs
 * nothing else. Plain JavaScript, for it runs before anything is installed.
 */
import { readFileSync, writeFileSync } from "node:fs";

const names = process.argv.slice(2);

const manifest = read("package.json");
write("package.json", reduced(manifest));
const lock = read("package-lock.json");
write("package-lock.json", { ...lock, packages: { ...lock.packages, "": reduced(lock.packages[""]) } });

/** The manifest without all that is for development, with the named dependencies only. */
function reduced({ scripts, bin, devDependencies, allowScripts, dependencies, ...rest }) {
  const unknown = names.filter((name) => dependencies[name] === undefined);
  if (unknown.length > 0) throw new Error(`These are no dependencies of the repository: ${unknown.join(", ")}.`);
  return { ...rest, dependencies: Object.fromEntries(names.map((name) => [name, dependencies[name]])) };
}

function read(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function write(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}
