import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { z } from "zod";
import { serveArtifact } from "./artifacts.ts";
import { RunnerError } from "./errors.ts";
import { agentSignals, createHostSchema, type Hosts } from "./hosts.ts";

const BODY_LIMIT_BYTES = 64 * 1024;
const killSchema = z.strictObject({ signal: z.enum(agentSignals) });

/** The runner's HTTP interface: what a cloud's API would answer, and what only a machine under test is asked. */
export function createRunnerServer(hosts: Hosts, token: string): Server {
  return createServer((request, response) => {
    handle(hosts, token, request, response).catch((error: unknown) => answerError(response, error));
  });
}

async function handle(hosts: Hosts, token: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://host-runner");
  if (url.pathname === "/healthz") return answer(response, 200, { status: "ok" });
  if (isRead(request) && url.pathname.startsWith("/artifacts/")) return serveArtifact(url.pathname, request, response);
  // Artifacts are public, as on any download server; all else is the deployment's alone.
  requireToken(request, token);
  const [root, id, ...rest] = url.pathname.split("/").filter((part) => part !== "");
  if (root !== "hosts") throw notFound(url);
  if (id === undefined) return handleCollection(hosts, request, response, url);
  return handleHost(hosts, `${request.method} ${rest.join("/")}`, id, request, response, url);
}

async function handleCollection(hosts: Hosts, request: IncomingMessage, response: ServerResponse, url: URL) {
  if (request.method === "GET") return answer(response, 200, { hosts: hosts.list(url.searchParams.get("tag")) });
  if (request.method !== "POST") throw notFound(url);
  const created = await hosts.create(await readBody(request, createHostSchema), Date.now());
  return answer(response, 201, created);
}

async function handleHost(
  hosts: Hosts,
  operation: string,
  id: string,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  switch (operation) {
    case "DELETE ":
      await hosts.destroy(id);
      response.writeHead(204).end();
      return;
    case "POST power-off":
      return answer(response, 200, await hosts.powerOff(id));
    case "GET processes":
      return answer(response, 200, await hosts.processes(id));
    case "POST agent/start":
      await hosts.startAgent(id);
      return answer(response, 200, await hosts.processes(id));
    case "POST agent/kill": {
      const { signal } = await readBody(request, killSchema);
      return answer(response, 200, { pid: await hosts.killAgent(id, signal) });
    }
    default:
      throw notFound(url);
  }
}

function isRead(request: IncomingMessage): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

function requireToken(request: IncomingMessage, token: string): void {
  const given = digest(request.headers.authorization ?? "");
  if (!timingSafeEqual(given, digest(`Bearer ${token}`))) {
    throw new RunnerError("unauthenticated", "Send the runner's token as `Authorization: Bearer …`.");
  }
}

function digest(value: string): Buffer {
  return createHash("sha256").update(value).digest();
}

function notFound(url: URL): RunnerError {
  return new RunnerError("not_found", `There is no ${url.pathname}.`);
}

async function readBody<T extends z.ZodType>(request: IncomingMessage, schema: T): Promise<z.output<T>> {
  const result = schema.safeParse(parseJson(await readText(request)));
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue) => `${issue.path.join(".") || "(root)"}: ${issue.message}`);
  throw new RunnerError("invalid_request", issues.join("; "));
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > BODY_LIMIT_BYTES) throw new RunnerError("invalid_request", "The body is larger than 64 KiB.");
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RunnerError("invalid_request", "The body is not JSON.");
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

function answerError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const known = error instanceof RunnerError ? error : new RunnerError("internal", "The host runner failed.");
  if (known !== error) process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : error}\n`);
  answer(response, known.status, { code: known.code, message: known.message });
}
