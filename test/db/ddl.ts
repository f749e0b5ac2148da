import pg from "pg";

/** What a schema consists of, as text that is the same on every PostgreSQL version: columns, constraints, indexes. */
export async function ddlOf(databaseUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const columns = await client.query<{ line: string }>(
      `select format('%s.%s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                case when a.attnotnull then ' not null' else '' end,
                coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
       order by c.relname, a.attnum`,
    );
    const constraints = await client.query<{ line: string }>(
      `select format('%s: %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as line
       from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'`,
    );
    const indexes = await client.query<{ line: string }>(
      "select indexdef as line from pg_indexes where schemaname = 'public'",
    );
    // Sorted here: the order of text in a database depends on its locale.
    const sorted = [constraints.rows, indexes.rows].flatMap((rows) => rows.map(({ line }) => line).sort());
    const lines = [...columns.rows.map(({ line }) => line), ...sorted];
    return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
  } finally {
    await client.end();
  }
}

export async function emptySchema(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query("drop schema public cascade");
  await client.query("create schema public");
  await client.end();
}
