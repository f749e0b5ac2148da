import { describe, expect, it } from "vitest";
import { endpointsOf } from "../../../domain/node/endpoints.ts";

describe("endpointsOf", () => {
  it.each([
    "http://127.0.0.1:8545",
    "https://node.example/rpc?x=1",
    "ws://[::1]:8546",
    "wss://n.example",
    "tcp://10.0.0.1:30303",
  ])("keeps %s", (address) => {
    expect(endpointsOf({ rpc: address })).toEqual({ rpc: address });
  });

  it.each([
    "javascript:alert(1)",
    "JAVASCRIPT://h/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "http://",
    "//h:1",
    "h:8545",
    "http://h:99999",
    "http://h:1/ x",
    "http://h:1/\u001b[2J",
    "java\nscript:alert(1)",
    "",
    `http://h:1/${"x".repeat(600)}`,
  ])("leaves out %j", (address) => {
    expect(endpointsOf({ rpc: address, p2p: "tcp://h:1" })).toEqual({ p2p: "tcp://h:1" });
  });

  it.each(["", "__proto__", "a b", "a\u001b[2J", "x".repeat(65), "<b>"])("leaves out the name %j", (name) => {
    const reported = Object.fromEntries([[name, "http://h:1"]]);
    expect(Object.keys(endpointsOf(reported))).toEqual([]);
  });
});
