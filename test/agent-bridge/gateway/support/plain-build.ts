import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { type Copy, readCopy, type Stage } from "./dockerfile.ts";
import { seedNpmCache } from "./npm-cache.ts";

/** The account that owns nothing, on any Linux. */
const NOBODY = 65_534;

/** What this run's own npm and vitest have set. */
const OURS = /^npm_|^NODE_OPTIONS$|^VITEST/i;
/** How this machine's npm comes to packages. Its own file is not found by the npm of another Node. */
const REACHES_REGISTRY = /^npm_config_(globalconfig|registry|cafile|proxy|https_proxy|noproxy)$/i;

/** Runs a Dockerfile's instructions where there is no Docker: each stage is a directory, each RUN a command in it. */
export class PlainBuild {
  /** Of processes that shall not be root's. */
  readonly user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  readonly #root = mkdtempSync(join(tmpdir(), "orrery-image-"));
  readonly #stages = new Map<string, string>();

  constructor() {
    chmodSync(this.#root, 0o755);
    mkdirSync(join(this.#root, "home"));
    seedNpmCache(join(this.#root, "home/cache"));
    this.#give(join(this.#root, "home"));
  }

  /** Why a user that is not root cannot run here what an image needs; null when it can. */
  get obstacle(): string | null {
    const { status, stderr, error } = spawnSync("npm", ["--version"], {
      ...this.user,
      env: this.environment,
      cwd: this.#root,
    });
    return status === 0 ? null : `npm fails for a user that is not root: ${error?.message ?? stderr.toString()}`;
  }

  get environment(): Record<string, string> {
    const inherited = Object.entries(process.env).filter(([name]) => REACHES_REGISTRY.test(name) || !OURS.test(name));
    return {
      ...Object.fromEntries(inherited.map(([name, value]) => [name, value ?? ""])),
      PATH: [dirname(process.execPath), process.env.PATH ?? ""].join(delimiter),
      HOME: join(this.#root, "home"),
      npm_config_cache: join(this.#root, "home/cache"),
      npm_config_prefer_offline: "true",
    };
  }

  /** Answers the stage's working directory. */
  run(stage: Stage): string {
    const root = join(this.#root, `stage-${this.#stages.size}`);
    mkdirSync(root);
    this.#stages.set(stage.name, root);
    let cwd = root;
    for (const { name, text } of stage.instructions) {
      if (name === "WORKDIR") {
        cwd = join(root, text);
        mkdirSync(cwd, { recursive: true });
      }
      if (name === "COPY") this.#copy(readCopy(text), cwd);
      if (name === "RUN") {
        this.#give(root);
        execFileSync("sh", ["-c", text], { ...this.user, cwd, env: this.environment, stdio: "pipe" });
      }
    }
    return cwd;
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true });
  }

  #copy({ from, sources, destination }: Copy, cwd: string): void {
    const base = from === null ? process.cwd() : (this.#stages.get(from) ?? "");
    const isDirectory = destination.endsWith("/") || sources.length > 1;
    for (const source of sources) {
      const path = join(base, source);
      const target = join(cwd, destination);
      // As Docker does: of a directory its content.
      if (statSync(path).isDirectory()) cpSync(path, target, { recursive: true });
      else cpSync(path, isDirectory ? join(target, basename(source)) : target);
    }
  }

  #give(path: string): void {
    if (this.user.uid !== undefined) execFileSync("chown", ["-R", String(NOBODY), path]);
  }
}
