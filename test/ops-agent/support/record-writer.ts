import { CommandRecord } from "../../../ops-agent/state/command-record.ts";

/** Starts and ends commands until it is killed; says each id only after the record has taken it. */
const record = new CommandRecord(process.argv[2] ?? "", 5);
for (let index = 0; ; index += 1) {
  const id = `${process.argv[3]}-${index}`;
  record.received(id);
  record.started(id);
  process.stdout.write(`started ${id}\n`);
  record.ended(id, { ok: true, metadata: { id } });
  process.stdout.write(`ended ${id}\n`);
}
