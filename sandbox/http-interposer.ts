import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";

/**
 * Stands between two programs that speak HTTP, and lets a test act at a boundary of one exchange:
 * `before` the request has reached the peer, `after` the peer has done it but before its answer is delivered,
 * or once it is `answered`. At the first two the exchange is then broken off, as a crash would.
 */
export interface HttpInterposer {
  readonly url: string;
  /** Acts once, at the first exchange that matches. Settles when `act` has. */
  once(rule: HttpRule): Promise<void>;
  /** Every exchange that went through, for counting. */
  readonly exchanges: readonly Exchange[];
  stop(): Promise<void>;
}

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly requestBody: string;
}

export type HttpBoundary = "before" | "after" | "answered";

export interface HttpRule {
  readonly method: string;
  readonly path: RegExp;
  readonly boundary: HttpBoundary;
  act(): Promise<void>;
}

interface ArmedRule extends HttpRule {
  settle(result: Promise<void>): void;
}

export async function startHttpInterposer(targetUrl: string): Promise<HttpInterposer> {
  const armed: ArmedRule[] = [];
  const exchanges: Exchange[] = [];
  const server = createServer((request, response) => {
    relay(request, response).catch(() => response.destroy());
  });

  async function relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const method = request.method ?? "GET";
    const path = request.url ?? "/";
    const rule = takeRule(armed, method, path);
    const body = method === "GET" || method === "HEAD" ? undefined : await text(request);
    if (rule?.boundary === "before") return breakOff(rule, response);
    const answer = await fetch(`${targetUrl}${path}`, {
      method,
      headers: forwardedHeaders(request),
      ...(body === undefined || body === "" ? {} : { body }),
    });
    const answerText = await answer.text();
    exchanges.push({ method, path, status: answer.status, requestBody: body ?? "" });
    if (rule?.boundary === "after") return breakOff(rule, response);
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "application/json" });
    response.end(answerText, () => {
      if (rule !== null) rule.settle(rule.act());
    });
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The interposer has no port.");
  return {
    url: `http://127.0.0.1:${address.port}`,
    exchanges,
    once(rule) {
      const { promise, resolve } = Promise.withResolvers<void>();
      armed.push({ ...rule, act: () => rule.act(), settle: resolve });
      return promise;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function takeRule(armed: ArmedRule[], method: string, path: string): ArmedRule | null {
  const index = armed.findIndex((rule) => rule.method === method && rule.path.test(path));
  if (index === -1) return null;
  return armed.splice(index, 1)[0] ?? null;
}

async function breakOff(rule: ArmedRule, response: ServerResponse): Promise<void> {
  const acted = rule.act();
  rule.settle(acted);
  await acted;
  response.destroy();
}

function forwardedHeaders(request: IncomingMessage): Record<string, string> {
  const { authorization, "content-type": contentType } = request.headers;
  return {
    ...(authorization === undefined ? {} : { authorization }),
    ...(contentType === undefined ? {} : { "content-type": contentType }),
  };
}
