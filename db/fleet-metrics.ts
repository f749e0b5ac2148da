import { sql } from "drizzle-orm";
import type { Executor } from "./client.ts";

/** The numbers of `/metrics` that come from Postgres, one tenant's. */
export interface FleetMetrics {
  readonly nodesByState: readonly { readonly state: string; readonly count: number }[];
  readonly sagasByStatus: readonly { readonly workflow: string; readonly status: string; readonly count: number }[];
  /** The longest that an event of the last five minutes waited for the consumer. */
  readonly outboxLagSeconds: number;
  /** Nodes whose object should have acted by now and has not. */
  readonly overdueTimers: number;
}

export async function readFleetMetrics(db: Executor, tenant: string, overdueBefore: Date): Promise<FleetMetrics> {
  const nodes = await db.execute<{ state: string; count: number }>(
    sql`select state, count(*)::integer as count from nodes where tenant = ${tenant} group by state order by state`,
  );
  const sagas = await db.execute<{ workflow: string; status: string; count: number }>(
    sql`select workflow, status, count(*)::integer as count from sagas where tenant = ${tenant}
        group by workflow, status order by workflow, status`,
  );
  const lag = await db.execute<{ seconds: number }>(
    sql`select coalesce(max(extract(epoch from e.recorded_at - e.occurred_at)), 0)::double precision as seconds
        from node_events e join nodes n on n.id = e.node_id
        where n.tenant = ${tenant} and e.recorded_at > now() - interval '5 minutes'`,
  );
  const overdue = await db.execute<{ count: number }>(
    sql`select count(*)::integer as count from nodes
        where tenant = ${tenant} and state not in ('terminated', 'failed') and next_due < ${overdueBefore.toISOString()}`,
  );
  return {
    nodesByState: nodes.rows,
    sagasByStatus: sagas.rows,
    outboxLagSeconds: lag.rows[0]?.seconds ?? 0,
    overdueTimers: overdue.rows[0]?.count ?? 0,
  };
}
