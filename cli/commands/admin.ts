import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { apiKeySchema, type ControlKeyAnswer, controlKeySchema, createdApiKeySchema, listOf } from "../answers.ts";
import { ApiClient } from "../api.ts";
import { parseDuration } from "../duration.ts";
import { Failure, UsageFailure } from "../failure.ts";
import { addPaging, type Paging, readPages, showPage } from "../paging.ts";
import { record, table, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";
import { parseKey, readUrl } from "../settings.ts";

interface CreateKeyOptions {
  readonly name: string;
  readonly scope: readonly string[];
  readonly user?: string;
  readonly expiresIn?: number;
  readonly bootstrapSecretFile?: string;
  readonly url?: string;
}

export function addAdmin(program: Command): void {
  const admin = program.command("admin").description("Act as the deployment's operator");

  admin
    .command("create-key")
    .description("Mint an API key; the first one with the deployment's bootstrap secret")
    .requiredOption("--name <name>", "what the key is for")
    .requiredOption("--scope <scope...>", "what it may do, such as admin or nodes:read")
    .option("--user <id>", "the customer whose rows alone the key sees (default: an operator's key)")
    .option("--expires-in <duration>", "how long it is valid, such as 30d (default: for ever)", parseDuration)
    .option("--bootstrap-secret-file <file>", "file with the bootstrap secret (or set ORRERY_BOOTSTRAP_SECRET)")
    .option("--url <url>", "the deployment's address, when you are not logged in")
    .action((options: CreateKeyOptions, command: Command) => createKey(options, sessionOf(command)));

  addPaging(admin.command("keys"))
    .description("List the API keys, the newest first")
    .action((options: Paging, command: Command) => listKeys(options, sessionOf(command)));

  admin
    .command("control-keys")
    .description("Show the public keys by which agents believe this deployment")
    .action((_options: unknown, command: Command) => listControlKeys(sessionOf(command)));
}

async function listControlKeys(session: Session): Promise<void> {
  const answer = await (await session.api()).get("/admin/control-keys", listOf(controlKeySchema));
  const columns = {
    KEY: (key: ControlKeyAnswer) => key.key_id,
    STATUS: (key: ControlKeyAnswer) => key.status,
    "PUBLIC KEY": (key: ControlKeyAnswer) => key.public_key,
  };
  session.result(answer, () => table(columns, answer.items));
}

async function createKey(options: CreateKeyOptions, session: Session): Promise<void> {
  const secret = await bootstrapSecret(options.bootstrapSecretFile);
  const api =
    secret === null ? await session.api() : new ApiClient(await readUrl(options.url, process.env), parseKey(secret));
  const expiry =
    options.expiresIn === undefined ? {} : { expires_at: new Date(Date.now() + options.expiresIn).toISOString() };
  const body = { name: options.name, scopes: options.scope, user_id: options.user, ...expiry };
  const created = await api.post("/admin/api-keys", createdApiKeySchema, body);
  if (created.key === null) throw lostKey(created.id);
  session.result(created, () =>
    record({
      id: created.id,
      name: created.name,
      scopes: created.scopes.join(" "),
      expires: created.expires_at,
      key: created.key,
    }),
  );
  session.remark("The key is shown this once. Keep it with: orrery login --url <url> --key <key>");
}

/** The answer to our first attempt was lost, and no later one shows the key again. */
function lostKey(id: string): Failure {
  return new Failure({
    code: "key_lost",
    message: `The key ${id} was made, but the network lost the one answer that showed it.`,
    advice: "Make another key; if this one came from the bootstrap secret, set a new secret and deploy first.",
    details: { id },
  });
}

async function bootstrapSecret(file: string | undefined): Promise<string | null> {
  if (file === undefined) return process.env.ORRERY_BOOTSTRAP_SECRET || null;
  const text = await readFile(file, "utf8").catch((error: Error) => {
    throw new UsageFailure(`The bootstrap secret cannot be read: ${error.message}.`);
  });
  return text.trim();
}

async function listKeys(paging: Paging, session: Session): Promise<void> {
  const page = await readPages(await session.api(), "/admin/api-keys", listOf(apiKeySchema), paging);
  showPage(session, page, {
    ID: (key) => key.id,
    NAME: (key) => key.name,
    SCOPES: (key) => key.scopes.join(" "),
    CREATED: (key) => time(key.created_at),
    EXPIRES: (key) => (key.expires_at === null ? "never" : time(key.expires_at)),
    "LAST USED": (key) => (key.last_used_at === null ? "never" : time(key.last_used_at)),
  });
}
