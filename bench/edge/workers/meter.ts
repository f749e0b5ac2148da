/** Where the local runtime notes an object's name, at its construction; a deployed object has no such table. */
const LOCAL_RUNTIME_TABLE = "__miniflare_do_name";

/** What came in at objects and what they did to their storage. */
export interface Metered {
  /** Constructions: an object came into memory, at first or out of hibernation. */
  woken: number;
  rowsRead: number;
  /** By SQL. */
  rowsWritten: number;
  /** Each is a row written as well. */
  alarmsSet: number;
  /** What the object's database takes on disk. */
  databaseBytes: number;
  /** Alarms, RPC calls, requests and socket events by name. */
  readonly events: Record<string, number>;
}

/** By object; they live in the isolate, which all objects of a class share, and cost a beat nothing. */
const meters = new Map<string, Metered>();

/** Everything since the last reset, by object. */
export function allMetered(): Readonly<Record<string, Metered>> {
  return Object.fromEntries(meters);
}

export function resetMeters(): void {
  meters.clear();
}

/** Counts at the boundary of one object; made when the object is. */
export class ObjectMeter {
  readonly #object: string;
  readonly #sql: SqlStorage;
  /** Of the events under way: a cursor knows its rows when it has been read. */
  #cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];

  constructor({ id, storage }: DurableObjectState) {
    this.#object = id.toString();
    this.#sql = storage.sql;
    this.#counts().woken += 1;
    this.#meterRows(storage.sql);
    this.#meterAlarms(storage);
  }

  async event<T>(name: string, handle: () => Promise<T>): Promise<T> {
    const { events } = this.#counts();
    events[name] = (events[name] ?? 0) + 1;
    try {
      return await handle();
    } finally {
      this.#addRows();
    }
  }

  #counts(): Metered {
    const known = meters.get(this.#object);
    if (known !== undefined) return known;
    const fresh = { woken: 0, rowsRead: 0, rowsWritten: 0, alarmsSet: 0, databaseBytes: 0, events: {} };
    meters.set(this.#object, fresh);
    return fresh;
  }

  #addRows(): void {
    const counts = this.#counts();
    for (const { rowsRead, rowsWritten } of this.#cursors) {
      counts.rowsRead += rowsRead;
      counts.rowsWritten += rowsWritten;
    }
    counts.databaseBytes = this.#sql.databaseSize;
    this.#cursors = [];
  }

  #meterRows(sql: SqlStorage): void {
    const plain = Object.assign(sql, { unmeteredExec: sql.exec });
    sql.exec = <T extends Record<string, SqlStorageValue>>(query: string, ...bindings: unknown[]) => {
      const cursor = plain.unmeteredExec<T>(query, ...bindings);
      if (!query.includes(LOCAL_RUNTIME_TABLE)) this.#cursors.push(cursor);
      return cursor;
    };
  }

  #meterAlarms(storage: DurableObjectStorage): void {
    const setAlarm = storage.setAlarm.bind(storage);
    const deleteAlarm = storage.deleteAlarm.bind(storage);
    storage.setAlarm = (at, options) => {
      this.#counts().alarmsSet += 1;
      return setAlarm(at, options);
    };
    storage.deleteAlarm = (options) => {
      this.#counts().alarmsSet += 1;
      return deleteAlarm(options);
    };
  }
}
