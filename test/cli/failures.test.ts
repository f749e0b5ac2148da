import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { subscription } from "./samples.ts";
import { ApiServer, problem, type Route } from "./support.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;

let api: ApiServer;
afterEach(() => api.close());

async function serve(routes: Readonly<Record<string, Route>> = {}): Promise<ApiServer> {
  api = await ApiServer.start(routes);
  return api;
}

const SUBSCRIPTION = ["subscriptions", "create", "--chain", "anvil", "--node-type", "full"];
const subscriptionAnswer = { status: 201, body: subscription };

describe("a refusal of the API", () => {
  const routes = {
    "POST /subscriptions": () =>
      problem(400, "invalid_request", "The request is not valid.", {
        issues: [{ path: "chain", message: "must be lower case" }],
      }),
  };

  test("tells people the code, the sentence, each issue, the advice and the correlation id, and exits 1", async () => {
    const outcome = await (await serve(routes)).run(SUBSCRIPTION);
    expect(outcome).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "error: invalid_request: The request is not valid.\n" +
        "  - chain: must be lower case\n" +
        "  Advice for invalid_request.\n" +
        "  correlation id: c-123\n",
    });
  });

  test("tells programs the same as one line of JSON", async () => {
    const outcome = await (await serve(routes)).run([...SUBSCRIPTION, "--json"]);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(JSON.parse(outcome.stderr)).toEqual({
      error: {
        status: 400,
        code: "invalid_request",
        message: "The request is not valid.",
        advice: "Advice for invalid_request.",
        correlation_id: "c-123",
        issues: [{ path: "chain", message: "must be lower case" }],
      },
    });
  });
});

describe("an answer that is not the API's", () => {
  test.each([
    ["an error page", { status: 502, body: "<html>" }, "answered 502 without an error document"],
    ["a page in place of an answer", { body: "<html>" }, "an answer of another form: the whole:"],
    ["a body of another form", { body: { id: 7 } }, "an answer of another form: id:"],
  ])("%s is named as such, with a correlation id", async (_, answer, words) => {
    const outcome = await (await serve({ "POST /subscriptions": () => answer })).run(SUBSCRIPTION);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain("error: unexpected_answer: ");
    expect(outcome.stderr).toContain(words);
    expect(outcome.stderr).toMatch(/correlation id: [0-9a-f-]{36}\n$/);
  });
});

describe("a network that breaks", () => {
  test("makes a POST be sent again with the same Idempotency-Key, until it is answered", async () => {
    let attempts = 0;
    await serve({ "POST /subscriptions": () => (++attempts < 3 ? "hang up" : subscriptionAnswer) });
    expect(await api.run(SUBSCRIPTION)).toMatchObject({ code: 0 });
    const keys = api.calls.map((call) => call.headers["idempotency-key"]);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("and waits for the first attempt when that is still running", async () => {
    const running = problem(409, "idempotency_in_progress", "The first request is still running.");
    let attempts = 0;
    await serve({ "POST /subscriptions": () => (++attempts === 1 ? running : subscriptionAnswer) });
    expect(await api.run(SUBSCRIPTION)).toMatchObject({ code: 0 });
    expect(new Set(api.calls.map((call) => call.headers["idempotency-key"])).size).toBe(1);
  });

  test("is told as unreachable in the end", async () => {
    const outcome = await (await serve({ "POST /subscriptions": () => "hang up" })).run(SUBSCRIPTION);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain(`error: unreachable: ${api.url}/api/v1 did not answer`);
    expect(outcome.stderr).toMatch(/correlation id: [0-9a-f-]{36}\n$/);
  });

  test("and each POST has a key of its own", async () => {
    await serve({ "POST /subscriptions": () => subscriptionAnswer });
    await api.run(SUBSCRIPTION);
    await api.run(SUBSCRIPTION);
    expect(new Set(api.calls.map((call) => call.headers["idempotency-key"])).size).toBe(2);
  });
});

describe("a wrong command line exits 2 and sends nothing", () => {
  test.each([
    [[], "A command is missing."],
    [["nodes"], "A command is missing."],
    [["planets"], "unknown command 'planets'"],
    [["nodes", "get"], "missing required argument 'node'"],
    [["nodes", "list", "--colour"], "unknown option '--colour'"],
    [["nodes", "list", "--limit", "0"], "Give a whole number of 1 or more."],
    [["nodes", "create"], "Give --subscription, or --chain and --node-type for a new one."],
    [["nodes", "create", "--subscription", "s-1", "--timeout", "soon"], "Give a number and s, m, h or d"],
    [["nodes", "commands", "send", "n-1", "UPGRADE"], "Allowed choices are START, STOP, RESTART."],
    [["login", "--url", "http://x", "--key", "a b"], "The key holds blanks or characters that no key has."],
    [["login", "--url", "ftp://x", "--key", "k"], '"ftp://x" is not an http(s) address'],
    [["admin", "create-key", "--name", "x"], "required option '--scope <scope...>' not specified"],
  ])("%j", async (args, words) => {
    await serve();
    const outcome = await api.run(args);
    expect(outcome).toMatchObject({ code: 2, stdout: "" });
    expect(outcome.stderr).toContain("error: usage: ");
    expect(outcome.stderr).toContain(words);
    expect(api.calls).toEqual([]);
  });

  test("as JSON for programs, without the help text", async () => {
    const outcome = await (await serve()).run(["nodes", "--json"]);
    expect(outcome.code).toBe(2);
    expect(JSON.parse(outcome.stderr)).toMatchObject({ error: { code: "usage", message: "A command is missing." } });
  });
});

describe("a machine that does not take what is written", () => {
  test("a key in the environment that no header takes is a usage failure, and nothing is sent", async () => {
    await serve();
    const outcome = await api.run(SUBSCRIPTION, { ORRERY_API_KEY: "orr_\u20ac" });
    expect(outcome).toMatchObject({ code: 2, stdout: "" });
    expect(outcome.stderr).toContain("error: usage: The key holds");
    expect(api.calls).toEqual([]);
  });

  test("a configuration that cannot be written or read is named with its reason", async () => {
    await serve();
    await writeFile(join(api.configHome, "orrery"), "a file where the directory should be");
    const login = await api.runBare(["login", "--url", "http://x", "--key", "k"]);
    expect(login.code).toBe(1);
    expect(login.stderr).toContain("error: configuration_unwritable: ");
    const list = await api.runBare(["nodes", "list", "--json"]);
    expect(JSON.parse(list.stderr)).toMatchObject({ error: { code: "configuration_invalid" } });
  });

  test("a full disk under standard output is told in one line", async () => {
    await serve({ "GET /nodes": () => ({ body: { items: [], next_cursor: null } }) });
    const child = spawn("sh", ["-c", '"$0" "$1" nodes list > /dev/full', process.execPath, MAIN], {
      env: { PATH: process.env.PATH, ORRERY_URL: api.url, ORRERY_API_KEY: "k" },
    });
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: output_failed: ENOSPC.*\n$/);
  });
});

test("help goes to standard output and is no failure", async () => {
  const outcome = await (await serve()).run(["nodes", "--help"]);
  expect(outcome).toMatchObject({ code: 0, stderr: "" });
  expect(outcome.stdout).toContain("Usage: orrery nodes");
});
