import type { Command } from "commander";
import { type RepairReport, repairReportSchema } from "../answers.ts";
import { Failure } from "../failure.ts";
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

/** The deployment repairs a batch of nodes per request; unreachable nodes make the command fail, for their copies stay as they were. */
async function repairProjections(session: Session): Promise<void> {
  const api = await session.api();
  const done = { nodes: 0, written: 0, unreachable: 0 };
  let cursor: string | null = null;
  do {
    const batch: RepairReport = await api.post(
      "/admin/repair/projections",
      repairReportSchema,
      cursor === null ? {} : { cursor },
    );
    done.nodes += batch.nodes;
    done.written += batch.written;
    done.unreachable += batch.unreachable;
    cursor = batch.next_cursor;
    if (cursor !== null) session.remark(`${done.nodes} nodes so far`);
  } while (cursor !== null);
  if (done.unreachable > 0) throw unreachableNodes(done);
  session.result(done, () => record(done));
}

function unreachableNodes(done: { nodes: number; written: number; unreachable: number }): Failure {
  return new Failure({
    code: "nodes_unreachable",
    message: `${done.unreachable} of ${done.nodes} nodes did not answer; their copies stay as they were.`,
    advice: "Run the command again; the deployment's log names the nodes.",
    details: done,
  });
}
