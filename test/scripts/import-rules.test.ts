import { describe, expect, test } from "vitest";
import { checkFile } from "../../scripts/import-rules.ts";

const messages = (file: string, source: string) => checkFile(file, source).map((violation) => violation.message);

describe("an import that the design forbids is named", () => {
  test.each([
    ["domain/node/a.ts", "../../db/nodes.ts", "domain/ may not import db/nodes.ts"],
    ["domain/a.ts", "../durable-objects/node/contract.ts", "domain/ may not import durable-objects/node/contract.ts"],
    ["db/nodes.ts", "../integrations/local/runner.ts", "db/ may not import integrations/local/runner.ts"],
    ["integrations/x/a.ts", "../../db/nodes.ts", "integrations/ may not import db/nodes.ts"],
    ["durable-objects/node/object.ts", "../../workers/index.ts", "durable-objects/ may not import workers/index.ts"],
    ["ops-agent/main.ts", "../db/nodes.ts", "ops-agent/ may not import db/nodes.ts"],
    ["ops-agent/main.ts", "../workers/index.ts", "ops-agent/ may not import workers/index.ts"],
    ["agent-bridge/a.ts", "../durable-objects/a.ts", "agent-bridge/ may not import durable-objects/a.ts"],
    ["agent-bridge/a.ts", "../ops-agent/a.ts", "agent-bridge/ may not import ops-agent/a.ts"],
    ["cli/main.ts", "../domain/errors.ts", "cli/ may not import domain/errors.ts"],
    ["cli/main.ts", "../domain/chainsaw.ts", "cli/ may not import domain/chainsaw.ts"],
    ["cli/main.ts", "../workers/api/app.ts", "cli/ may not import workers/api/app.ts"],
    ["console/a.ts", "../domain/node/node.ts", "console/ may not import domain/node/node.ts"],
    ["workers/index.ts", "../sandbox/github.ts", "workers/ may not import sandbox/github.ts"],
    ["bench/beats.ts", "../sandbox/github.ts", "bench/ may not import sandbox/github.ts"],
    ["scripts/check.ts", "../sandbox/github.ts", "scripts/ may not import sandbox/github.ts"],
    ["workers/index.ts", "../test/support.ts", "workers/ may not import test/support.ts"],
    ["workers/index.ts", "../dev/stack.ts", "workers/ may not import dev/stack.ts"],
    ["drizzle.config.ts", "./db/schema.ts", "the root may not import db/schema.ts"],
    ["db/a.ts", "../../elsewhere/a.ts", "imports ../../elsewhere/a.ts, which is outside the repository"],
    ["db/a.ts", "/tmp/a.ts", "imports the absolute path /tmp/a.ts"],
  ])("%s -> %s", (file, specifier, message) => {
    expect(messages(file, `import { a } from "${specifier}";`)).toEqual([message]);
  });

  test.each([
    `import type { A } from "../db/a.ts";`,
    `export { a } from "../db/a.ts";`,
    `export * from "../db/a.ts";`,
    `const a = await import("../db/a.ts");`,
    `type A = import("../db/a.ts").A;`,
    `import "../db/a.ts";`,
  ])("in every form: %s", (source) => {
    expect(messages("domain/a.ts", source)).toEqual(["domain/ may not import db/a.ts"]);
  });

  test("but not where it only looks like one", () => {
    expect(messages("domain/a.ts", `// import "../db/a.ts";\nconst text = 'import "../db/a.ts"';`)).toEqual([]);
  });

  test("with its line", () => {
    const source = `import { z } from "zod";\n\nimport { a } from "../db/a.ts";\n`;
    expect(checkFile("domain/a.ts", source)).toEqual([
      { file: "domain/a.ts", line: 3, message: "domain/ may not import db/a.ts" },
    ]);
  });

  test("also when its name is computed on a product path, where no rule can check it", () => {
    expect(messages("workers/a.ts", "await import(name);")).toEqual([
      "imports a computed name, which no rule can check",
    ]);
    expect(messages("dev/a.ts", "await import(name);")).toEqual([]);
  });
});

describe("packages", () => {
  test.each(["node:fs", "fs", "drizzle-orm", "hono", "uuidv7", "@bufbuild/protobuf"])(
    "domain may not use %s",
    (name) => {
      expect(messages("domain/a.ts", `import a from "${name}";`)).toEqual([
        `domain/ may not import ${name}: only @noble/curves, @noble/hashes, yaml, zod and itself`,
      ]);
    },
  );

  test.each(["zod", "zod/v4", "yaml"])("domain may use %s", (name) => {
    expect(messages("domain/a.ts", `import a from "${name}";`)).toEqual([]);
  });

  test.each(["domain", "db", "ops-agent", "agent-bridge", "cli", "dev", "integrations"])(
    "%s may not import the runtime's modules",
    (folder) => {
      expect(messages(`${folder}/a.ts`, `import { env } from "cloudflare:workers";`)).toEqual([
        `${folder}/ may not import cloudflare:workers: it does not run in workerd`,
      ]);
    },
  );
});

describe("an import that the design allows is not named", () => {
  test.each([
    ["domain/chain/recipe.ts", "../errors.ts"],
    ["db/nodes.ts", "../domain/node/node.ts"],
    ["durable-objects/node/object.ts", "../../db/nodes.ts"],
    ["durable-objects/node/object.ts", "../../proto/gen/orrery/agent/v1/gateway_pb.js"],
    ["durable-objects/node/object.ts", "cloudflare:workers"],
    ["workers/index.ts", "../durable-objects/node/object.ts"],
    ["ops-agent/main.ts", "../proto/gen/orrery/agent/v1/gateway_pb.js"],
    ["cli/chains.ts", "../domain/chain/parse.ts"],
    ["cli/chains.ts", "node:fs"],
    ["dev/stack.ts", "../sandbox/github.ts"],
    ["test/e2e/node.test.ts", "../../sandbox/github.ts"],
    ["test/scripts/a.test.ts", "../../scripts/check.ts"],
    ["test/soak/a.test.ts", "../../vitest.config.ts"],
  ])("%s -> %s", (file, specifier) => {
    expect(messages(file, `import { a } from "${specifier}";`)).toEqual([]);
  });
});

describe("a rule in domain/ gets time, chance and I/O as parameters", () => {
  test.each([
    ["Date.now()", "Date.now"],
    ["new Date()", "new Date()"],
    ["performance.now()", "performance.now"],
    ["Math.random()", "Math.random"],
    ["crypto.randomUUID()", "crypto.randomUUID"],
    ["crypto.getRandomValues(a)", "crypto.getRandomValues"],
    ["fetch(url)", "fetch()"],
    ["globalThis.fetch(url)", "globalThis.fetch"],
    ["setTimeout(f, 1)", "setTimeout()"],
    ["console.log(1)", "console.log"],
    ["process.env", "process.env"],
  ])("%s is named", (expression, name) => {
    const forbidden = [`domain/ may not use ${name}: time, chance and I/O are parameters of a rule`];
    expect(messages("domain/a.ts", `const x = ${expression};`)).toEqual(forbidden);
    expect(messages("workers/a.ts", `const x = ${expression};`)).toEqual([]);
  });

  test("what only computes is not", () => {
    const source = "const a = new Date(now); Date.parse(a); Math.max(1, 2); crypto.subtle.digest(b, c); store.fetch();";
    expect(messages("domain/a.ts", source)).toEqual([]);
  });
});

test("a folder without a rule is named, so that a new one cannot slip by", () => {
  expect(messages("attic/a.ts", "export {};")).toEqual([
    "no import rule for the folder attic/; add one to scripts/import-rules.ts",
  ]);
});

test("a file that cannot be parsed is named", () => {
  expect(messages("domain/a.ts", "import {")[0]).toContain("cannot be parsed");
});
