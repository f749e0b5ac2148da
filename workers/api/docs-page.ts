import { html, raw } from "hono/html";
import { ERRORS } from "../../domain/errors.ts";
import { SCOPE_EXTENSION } from "./define-route.ts";
import type { ApiDocument } from "./openapi.ts";

type Html = ReturnType<typeof html>;

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly scope: string;
  readonly tag: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly required: boolean }[];
  readonly body: unknown;
  readonly responses: readonly { readonly status: string; readonly description: string; readonly schema: unknown }[];
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { background: #8881; overflow-x: auto; padding: .75rem; }
section { border-top: 1px solid #8886; padding: .5rem 0; }
summary { cursor: pointer; }
b.method { display: inline-block; min-width: 3.5rem; }
td, th { padding: .15rem .75rem .15rem 0; text-align: left; vertical-align: top; }
`;

/** The API for people to read, made from the OpenAPI document; no scripts, nothing from elsewhere. */
export function docsPage(document: ApiDocument, nonce: string): Html {
  const byTag = Map.groupBy(operationsOf(document), ({ tag }) => tag);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${document.info.title}</title>
<style nonce="${nonce}">${raw(STYLE)}</style>
</head>
<body>
<h1>${document.info.title} v${document.info.version}</h1>
<p>Send an API key as <code>Authorization: Bearer orr_…</code>. Every POST with a key carries an <code>Idempotency-Key</code>: the same
request with the same key is done once, and asking again answers the same. Bodies are JSON; fields that are not named here
are refused. Lists go on with <code>next_cursor</code>. For programs: <a href="/api/v1/openapi.json">openapi.json</a>.</p>
${[...byTag].map(([tag, operations]) => html`<h2>${tag}</h2>${operations.map(operationSection)}`)}
<h2>Schemas</h2>
${Object.entries(document.components?.schemas ?? {}).map(
  ([name, schema]) =>
    html`<section id="schema-${name}"><details><summary>${name}</summary>${json(schema)}</details></section>`,
)}
<h2>Errors</h2>
<table><tr><th>Code</th><th>Status</th><th>What to do</th></tr>
${Object.entries(ERRORS).map(
  ([code, { status, advice }]) =>
    html`<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${advice}</td></tr>`,
)}
</table>
</body>
</html>`;
}

function operationSection(operation: Operation): Html {
  const { method, path, summary, scope, parameters, body, responses } = operation;
  return html`<section><details>
<summary><b class="method">${method.toUpperCase()}</b> <code>${path}</code> ${summary}</summary>
<p>Scope: <code>${scope}</code></p>
${parameters.length === 0 ? "" : html`<p>Parameters: ${parameters.map(({ name, in: place, required }) => html`<code>${name}</code> (${place}${required ? ", required" : ""}) `)}</p>`}
${body === undefined ? "" : html`<p>Body:</p>${json(body)}`}
${responses.map(({ status, description, schema }) => html`<p>${status}: ${description}</p>${schema === undefined ? "" : json(schema)}`)}
</details></section>`;
}

function json(value: unknown): Html {
  return html`<pre>${JSON.stringify(value, null, 2)}</pre>`;
}

function operationsOf(document: ApiDocument): Operation[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    (["get", "put", "post"] as const).flatMap((method) => {
      const operation = item[method];
      if (operation === undefined) return [];
      return {
        method,
        path,
        summary: operation.summary ?? "",
        scope: String(operation[SCOPE_EXTENSION]),
        tag: operation.tags?.[0] ?? "Other",
        parameters: (operation.parameters ?? []).flatMap((parameter) =>
          "name" in parameter
            ? [{ name: parameter.name, in: parameter.in, required: parameter.required === true }]
            : [],
        ),
        body: jsonSchemaOf(operation.requestBody),
        responses: Object.entries(operation.responses ?? {}).map(([status, response]) => ({
          status,
          description: "description" in response ? String(response.description) : "",
          schema: jsonSchemaOf(response),
        })),
      };
    }),
  );
}

function jsonSchemaOf(holder: unknown): unknown {
  const { content }: { content?: Record<string, { schema?: unknown }> } = Object(holder);
  return content?.["application/json"]?.schema;
}
