import { mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const TOUCH_MS = 1_000;
/** The holder touches its lock each second; after this long without a touch it has died. */
const DEAD_AFTER_MS = 15_000;
const POLL_MS = 250;

/**
 * Runs `work` while holding the lock file, so that two commands started at once install only one after the other.
 * A holder that was killed is recognised by a lock that nobody touches any more.
 *
 * @template T
 * @param {string} path the lock file
 * @param {{ onWait: () => void }} options told once when another process holds the lock
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, { onWait }, work) {
  mkdirSync(dirname(path), { recursive: true });
  const owner = `${process.pid}-${Date.now()}`;
  for (let waited = false; !tryTake(path, owner); ) {
    if (!waited) onWait();
    waited = true;
    removeDeadLock(path, owner);
    await delay(POLL_MS);
  }
  const touch = setInterval(() => touchLock(path), TOUCH_MS);
  const release = () => {
    if (readOwner(path) === owner) rmSync(path, { force: true });
  };
  process.on("exit", release);
  try {
    return await work();
  } finally {
    clearInterval(touch);
    process.off("exit", release);
    release();
  }
}

function tryTake(path, owner) {
  try {
    writeFileSync(path, owner, { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

/** Moves a dead lock aside first: a rename succeeds for one of several that saw it dead. */
function removeDeadLock(path, owner) {
  try {
    if (Date.now() - statSync(path).mtimeMs < DEAD_AFTER_MS) return;
    const aside = `${path}.${owner}`;
    renameSync(path, aside);
    rmSync(aside);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

function touchLock(path) {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

function readOwner(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
