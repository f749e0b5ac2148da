import { NodeObject as ProductNodeObject } from "../../durable-objects/node/object.ts";

export * from "../../workers/index.ts";
export { default } from "../../workers/index.ts";

/** Where the local runtime notes an object's name, at its construction; a deployed object has no such table. */
const LOCAL_RUNTIME_TABLE = "__miniflare_do_name";

/**
 * The product's object with a meter at the boundary of its storage. It prints one line each time an object is
 * constructed, something comes in, and something is written; the soak reads them from the Worker's log.
 */
export class NodeObject extends ProductNodeObject {
  readonly #meter: Meter;

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = new Meter(ctx);
    super(ctx, env);
    this.#meter = meter;
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    this.#meter.print("event", { name: "alarm" });
    await super.alarm(info);
  }

  override async touch() {
    this.#meter.print("event", { name: "touch" });
    return super.touch();
  }

  override async webSocketMessage(socket: WebSocket, data: ArrayBuffer | string): Promise<void> {
    this.#meter.print("event", { name: "message" });
    await super.webSocketMessage(socket, data);
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    this.#meter.print("event", { name: "close" });
    await super.webSocketClose(socket);
  }

  override async fetch(request: Request): Promise<Response> {
    this.#meter.print("event", { name: "fetch" });
    return super.fetch(request);
  }
}

class Meter {
  readonly #object: string;
  readonly #wake = crypto.randomUUID();

  constructor(ctx: DurableObjectState) {
    this.#object = ctx.id.toString();
    this.print("woken");
    this.#meterRows(ctx.storage.sql);
    this.#meterAlarm(ctx.storage);
  }

  print(meter: string, fields: Readonly<Record<string, string | number>> = {}): void {
    console.log(JSON.stringify({ meter, object: this.#object, wake: this.#wake, at: Date.now(), ...fields }));
  }

  #meterRows(sql: SqlStorage): void {
    const plain = Object.assign(sql, { unmeteredExec: sql.exec });
    sql.exec = <T extends Record<string, SqlStorageValue>>(query: string, ...bindings: unknown[]) => {
      const cursor = plain.unmeteredExec<T>(query, ...bindings);
      const isOwn = !query.includes(LOCAL_RUNTIME_TABLE);
      if (isOwn && cursor.rowsWritten > 0) this.print("rows", { rows: cursor.rowsWritten, query: query.slice(0, 60) });
      return cursor;
    };
  }

  #meterAlarm(storage: DurableObjectStorage): void {
    const setAlarm = storage.setAlarm.bind(storage);
    const deleteAlarm = storage.deleteAlarm.bind(storage);
    storage.setAlarm = (at, options) => {
      this.print("alarm_written");
      return setAlarm(at, options);
    };
    storage.deleteAlarm = (options) => {
      this.print("alarm_written");
      return deleteAlarm(options);
    };
  }
}
