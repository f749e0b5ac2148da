import { create } from "@bufbuild/protobuf";
import { bytesToHex } from "@noble/hashes/utils.js";
import { exchangePublicKey } from "../../../domain/identity/handshake.ts";
import { sealDek } from "../../../domain/keys/dek-sealing.ts";
import { encryptKey } from "../../../domain/keys/envelope.ts";
import { keysMac } from "../../../domain/keys/key-list.ts";
import {
  type EncryptedKey,
  type InjectKeysPayload,
  InjectKeysPayloadSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";

export const NODE_ID = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
export const INSTALLATION_ID = "11111111-1111-4111-8111-111111111111";
export const SEALING_SECRET = new Uint8Array(32).fill(9);

type Wanted = Partial<Pick<EncryptedKey, "path" | "owner" | "mode">> & { readonly name: string; readonly text: string };

/** INJECT_KEYS as the control plane makes it. */
export async function sealedKeys(
  keys: readonly Wanted[],
  recipient = { nodeId: NODE_ID, installationId: INSTALLATION_ID },
  sealingKey = exchangePublicKey(SEALING_SECRET),
): Promise<InjectKeysPayload> {
  const random = (length: number) => crypto.getRandomValues(new Uint8Array(length));
  const dek = random(32);
  const encrypted = keys.map(async ({ name, text, path = `keys/${name}`, owner = "", mode = 0o600 }) => {
    const nonce = random(12);
    const facts = { type: "ed25519", source: "generated", publicKey: "ab".repeat(32) };
    const ciphertext = await encryptKey(dek, { nodeId: recipient.nodeId, name, ...facts }, nonce, content(text));
    const said = { keyType: facts.type, source: facts.source, publicKey: new Uint8Array(32).fill(0xab) };
    return { name, ...said, nonce, ciphertext, path, owner, mode };
  });
  const made = await Promise.all(encrypted);
  const sealed = made.map(({ keyType, publicKey, ...key }) => ({
    ...key,
    type: keyType,
    publicKey: bytesToHex(publicKey),
  }));
  return create(InjectKeysPayloadSchema, {
    keysMac: await keysMac(dek, recipient.nodeId, sealed),
    sealedDek: await sealDek(dek, recipient, sealingKey, { ephemeralSecret: random(32), nonce: random(12) }),
    keys: made,
  });
}

function content(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
