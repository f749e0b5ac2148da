import { OrreryError } from "../errors.ts";

/** What `{{ .A.b }}` may reach: nested plain records whose leaves are text, numbers or booleans. */
export type TemplateValue = string | number | boolean | { readonly [key: string]: TemplateValue };
export type TemplateScope = { readonly [key: string]: TemplateValue };

type TemplateNames =
  | { readonly ok: true; readonly names: readonly string[] }
  | { readonly ok: false; readonly message: string };

const EXPRESSION = /\{\{([^{}]*)\}\}/g;
const NAME = /^\.[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)*$/;

/** The names that a template uses, for example `.Ports.rpc`, or what is wrong with its syntax. */
export function templateNames(text: string): TemplateNames {
  const names: string[] = [];
  for (const [whole, inside = ""] of text.matchAll(EXPRESSION)) {
    const name = inside.trim();
    if (!NAME.test(name)) return { ok: false, message: `${whole} must be a name such as {{ .Values.network }}` };
    names.push(name);
  }
  const rest = text.replace(EXPRESSION, "");
  if (rest.includes("{{")) return { ok: false, message: "has {{ without its }}" };
  if (names.length > 0 && rest.includes("}}")) return { ok: false, message: "has }} without its {{" };
  return { ok: true, names };
}

/**
 * Replaces every `{{ .Name }}`; values are inserted as they are and never read as templates again.
 * @throws template_unresolved when a name is unknown or not a plain value, or the syntax is wrong
 */
export function renderTemplate(text: string, scope: TemplateScope): string {
  return render(text, (name) => lookUp(name, scope));
}

/**
 * Whether a step's `when` holds: it renders to something else than white space.
 * There a missing `.Values` or `.SyncData` name is empty, so that a recipe can ask whether an optional value is set.
 * @throws template_unresolved for any other unknown name
 */
export function renderCondition(text: string, scope: TemplateScope): boolean {
  const rendered = render(text, (name) => lookUp(name, scope) ?? (isOptional(name) ? "" : undefined));
  return rendered.trim() !== "";
}

/** Names that a `when` may use although nobody has set them. */
export function isOptional(name: string): boolean {
  return name.startsWith(".Values.") || name.startsWith(".SyncData.");
}

/** The text that a name stands for, or undefined when the scope has no such plain value. */
export function lookUp(name: string, scope: TemplateScope): string | undefined {
  let value: TemplateValue | undefined = scope;
  for (const key of name.split(".").slice(1)) {
    if (typeof value !== "object" || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value === undefined || typeof value === "object" ? undefined : String(value);
}

function render(text: string, resolve: (name: string) => string | undefined): string {
  const parsed = templateNames(text);
  if (!parsed.ok) throw new OrreryError("template_unresolved", `The template "${excerpt(text)}" ${parsed.message}.`);
  return text.replace(EXPRESSION, (_whole, inside: string) => {
    const name = inside.trim();
    const value = resolve(name);
    if (value !== undefined) return value;
    throw new OrreryError("template_unresolved", `${name} in "${excerpt(text)}" has no value.`, { name });
  });
}

function excerpt(text: string): string {
  return text.length <= 120 ? text : `${text.slice(0, 117)}...`;
}
