import type { Command } from "commander";
import { anySchema } from "../answers.ts";
import { record } from "../print.ts";
import { type Session, sessionOf } from "../session.ts";

export function addRepair(program: Command): void {
  program
    .command("repair")
    .description("Mend what a fault may have left")
    .command("projections")
    .description("Rebuild every copy in Postgres from the nodes' own state")
    .action((_options: unknown, command: Command) => repairProjections(sessionOf(command)));
}

async function repairProjections(session: Session): Promise<void> {
  const answer = await (await session.api()).post("/admin/repair/projections", anySchema, {});
  session.result(answer, () => record(answer));
}
