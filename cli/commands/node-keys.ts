import type { Command } from "commander";
import type { z } from "zod";
import { commandSchema, keySchema, listOf } from "../answers.ts";
import { type Columns, record, table, time } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

const COLUMNS: Columns<z.output<typeof keySchema>> = {
  NAME: ({ name }) => name,
  TYPE: ({ type }) => type,
  SOURCE: ({ source }) => source,
  CREATED: ({ created_at }) => time(created_at),
  "BACKED UP": ({ backed_up_at }) => (backed_up_at === null ? "no" : time(backed_up_at)),
  "PUBLIC KEY": ({ public_key }) => public_key ?? "",
};

export function addNodeKeys(nodes: Command): void {
  const keys = nodes.command("keys").description("A node's keys: what they are, never their bytes");

  keys
    .command("list", { isDefault: true })
    .description("List a node's keys")
    .argument("<node>", "the node's id")
    .action((node: string, _options: unknown, command: Command) => list(node, sessionOf(command)));

  keys
    .command("restore")
    .description("Bring a node's keys back into Postgres from their backup; nothing is overwritten")
    .argument("<node>", "the node's id")
    .action((node: string, _options: unknown, command: Command) => restore(node, sessionOf(command)));

  keys
    .command("inject")
    .description("Have the node's agent write the node's keys again")
    .argument("<node>", "the node's id")
    .action((node: string, _options: unknown, command: Command) => inject(node, sessionOf(command)));
}

async function list(node: string, session: Session): Promise<void> {
  const answer = await (await session.api()).get(`/nodes/${encodeURIComponent(node)}/keys`, listOf(keySchema));
  session.result(answer, () => table(COLUMNS, answer.items));
}

async function restore(node: string, session: Session): Promise<void> {
  const path = `/admin/nodes/${encodeURIComponent(node)}/keys/restore`;
  const answer = await (await session.api()).post(path, listOf(keySchema), {});
  session.result(answer, () => table(COLUMNS, answer.items));
}

async function inject(node: string, session: Session): Promise<void> {
  const path = `/nodes/${encodeURIComponent(node)}/keys/inject`;
  const answer = await (await session.api()).post(path, commandSchema, {});
  session.result(answer, () => record(answer));
}
