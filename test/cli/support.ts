import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const main = new URL("../../cli/main.ts", import.meta.url).pathname;

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

export type Answer = { readonly status?: number; readonly body: unknown } | "hang up";
export type Route = (call: Call) => Answer;

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line as a process of its own, with nothing of our environment but PATH. */
export async function runOrrery(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  input = "",
): Promise<Outcome> {
  const child = spawn(process.execPath, [main, ...args], { env: { PATH: process.env.PATH, ...env } });
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}

/** A small HTTP server in the API's place, and the command line run against it as a process of its own. */
export class ApiServer {
  readonly calls: Call[] = [];
  readonly #server: Server;
  readonly #home: string;
  readonly #routes: Record<string, Route>;

  static async start(routes: Readonly<Record<string, Route>>): Promise<ApiServer> {
    const home = await mkdtemp(join(tmpdir(), "orrery-cli-"));
    const api = new ApiServer(home, routes);
    await new Promise<void>((resolve) => api.#server.listen(0, "127.0.0.1", resolve));
    return api;
  }

  constructor(home: string, routes: Readonly<Record<string, Route>>) {
    this.#home = home;
    this.#routes = { ...routes };
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("The server does not listen.");
    return `http://127.0.0.1:${address.port}`;
  }

  /** Where `orrery login` keeps its configuration. */
  get configHome(): string {
    return this.#home;
  }

  /** Runs `orrery`, logged in by environment unless `env` says otherwise. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    return this.runBare(args, { ORRERY_URL: this.url, ORRERY_API_KEY: "orr_test_key", ...env });
  }

  runBare(args: readonly string[], env: Readonly<Record<string, string>> = {}, input = ""): Promise<Outcome> {
    return runOrrery(args, { HOME: this.#home, XDG_CONFIG_HOME: this.#home, ...env }, input);
  }

  /** Answers differently from now on. */
  replace(route: string, answer: Route): void {
    this.#routes[route] = answer;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.#home, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const path = (request.url ?? "").replace("/api/v1", "");
    const method = request.method ?? "";
    const call: Call = { method, path, headers: request.headers, body: body === "" ? null : JSON.parse(body) };
    this.calls.push(call);
    const answer = this.#routes[`${method} ${path.split("?")[0]}`]?.(call) ?? notFound(path);
    if (answer === "hang up") {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status ?? 200, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
  }
}

export function problem(status: number, code: string, detail: string, more: object = {}): Answer {
  const document = { type: "about:blank", title: code, status, code, detail, advice: `Advice for ${code}.` };
  return { status, body: { ...document, correlation_id: "c-123", ...more } };
}

function notFound(path: string): Answer {
  return problem(404, "not_found", `There is nothing at ${path}.`);
}
