import { z } from "zod";

/**
 * Stands in for the host runner where no process can be started: answers its HTTP interface from memory, and fails in
 * the ways that clouds fail. Who boots an agent on its hosts is up to the test.
 */
const createSchema = z.object({
  tag: z.string(),
  region: z.string(),
  instanceType: z.string(),
  agent: z.object({ nodeId: z.string(), generation: z.number(), controlUrl: z.url(), nodeToken: z.string() }),
});
export type CreateRequest = z.output<typeof createSchema>;

export interface CloudHost {
  readonly providerHostId: string;
  readonly tag: string;
  readonly address: string;
  readonly status: "running" | "off";
  readonly createdAt: number;
}

/** How the next call of an operation goes wrong. */
export type CloudFault =
  /** Refused for good. */
  | "refused"
  /** Fails before anything was done; asking again may work. */
  | "unavailable"
  /** Does what it was asked, and the answer is lost. */
  | "answer_lost"
  /** The answer is lost, and the host is only there after `finishLateCreates`. */
  | "late"
  /** Answers success: a search finds nothing, a destroy leaves the host. */
  | "lie";

type Operation = "create" | "find" | "destroy" | "list";

export interface Boot {
  readonly host: CloudHost;
  readonly request: CreateRequest;
}

export class Cloud {
  readonly #hosts = new Map<string, Boot>();
  readonly #faults = new Map<Operation, CloudFault[]>();
  readonly #late: CreateRequest[] = [];
  readonly created: CreateRequest[] = [];
  #nextId = 1;

  /** The live hosts, with what each was created from. */
  hosts(tagPart = ""): readonly Boot[] {
    return [...this.#hosts.values()].filter(({ host }) => host.tag.includes(tagPart));
  }

  /** The next calls of `operation` fail like this, one fault a call. */
  fail(operation: Operation, ...faults: readonly CloudFault[]): void {
    this.#faults.set(operation, [...(this.#faults.get(operation) ?? []), ...faults]);
  }

  heal(): void {
    this.#faults.clear();
  }

  /** Creates whose caller gave up long ago finish now, unless their tag is in use meanwhile. */
  finishLateCreates(): void {
    for (const request of this.#late.splice(0)) {
      if (this.hosts(request.tag).length === 0) this.#add(request, Date.now());
    }
  }

  /** Puts a host there that the control plane may know nothing of. */
  plant(request: CreateRequest, createdAt: number): void {
    this.#add(request, createdAt);
  }

  /** @throws TypeError in place of an answer that was lost, as `fetch` does */
  async handle(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const [root, id, action] = url.pathname.split("/").filter((part) => part !== "");
    if (root !== "hosts") return refuse(404, "not_found");
    if (request.method === "POST" && id === undefined) return this.#create(createSchema.parse(await request.json()));
    if (request.method === "GET") return this.#find(url.searchParams.get("tag"));
    const boot = this.#hosts.get(id ?? "");
    if (request.method === "DELETE") return this.#destroy(boot);
    if (action !== "power-off" || boot === undefined) return refuse(404, "not_found");
    const off = { ...boot.host, status: "off" as const };
    this.#hosts.set(off.providerHostId, { ...boot, host: off });
    return Response.json(off);
  }

  #create(request: CreateRequest): Response {
    const fault = this.#faults.get("create")?.shift();
    if (fault === "refused") return refuse(422, "invalid_request");
    if (fault === "unavailable") return refuse(503, "internal");
    if (this.hosts().some(({ host }) => host.tag === request.tag)) return refuse(409, "tag_in_use");
    if (fault === "late") this.#late.push(request);
    const host = fault === "late" ? null : this.#add(request, Date.now());
    if (fault !== undefined) throw new TypeError("The connection was lost.");
    return Response.json(host, { status: 201 });
  }

  #find(tag: string | null): Response {
    const failed = this.#fault(tag === null ? "list" : "find", () => Response.json({ hosts: [] }));
    if (failed !== null) return failed;
    const hosts = this.hosts().map(({ host }) => host);
    return Response.json({ hosts: hosts.filter((host) => tag === null || host.tag === tag) });
  }

  #destroy(boot: Boot | undefined): Response {
    const failed = this.#fault("destroy", () => new Response(null, { status: 204 }));
    if (failed !== null) return failed;
    if (boot !== undefined) this.#hosts.delete(boot.host.providerHostId);
    return new Response(null, { status: 204 });
  }

  #fault(operation: Operation, lie: () => Response): Response | null {
    const fault = this.#faults.get(operation)?.shift();
    if (fault === undefined) return null;
    if (fault === "lie") return lie();
    if (fault === "refused") return refuse(422, "invalid_request");
    if (fault === "unavailable") return refuse(503, "internal");
    throw new TypeError("The connection was lost.");
  }

  #add(request: CreateRequest, createdAt: number): CloudHost {
    const host: CloudHost = {
      providerHostId: `cloud-${this.#nextId++}`,
      tag: request.tag,
      address: "127.0.0.1",
      status: "running",
      createdAt,
    };
    this.created.push(request);
    this.#hosts.set(host.providerHostId, { host, request });
    return host;
  }
}

function refuse(status: number, code: string): Response {
  return Response.json({ code, message: `The cloud answers ${code}.` }, { status });
}
