import { base64Encode } from "@bufbuild/protobuf/wire";
import { hexToBytes } from "@noble/hashes/utils.js";
import { OrreryError } from "../../domain/errors.ts";
import { NONCE_BYTES } from "../../domain/keys/aes-gcm.ts";
import type { DeclaredKey } from "../../domain/keys/declared.ts";
import { sealDek } from "../../domain/keys/dek-sealing.ts";
import { masterWrapping } from "../../domain/keys/dek-wrapping.ts";
import { type NodeKeySet, withDek } from "../../domain/keys/key-set.ts";
import type { CommandPayload, InjectedKey } from "../../domain/node/command.ts";
import type { NodeView } from "../../domain/node/node.ts";
import type { KeyDeps } from "./deps.ts";

/** An X25519 secret key. */
const EXCHANGE_KEY_BYTES = 32;

/**
 * The node's keys as INJECT_KEYS carries them: all of them, each as it is stored, and the DEK sealed anew to the active
 * installation.
 * @throws no_installation, keys_missing, keys_conflict when there are keys that the chain does not declare, key_unreadable
 */
export async function injectPayload(
  { config, random }: Pick<KeyDeps, "config" | "random">,
  set: NodeKeySet,
  declared: readonly DeclaredKey[],
  view: Pick<NodeView, "installations">,
): Promise<CommandPayload> {
  const { installationId, sealingKey } = activeInstallation(view);
  const keys = declared.map((key) => injectedKey(set, key));
  if (set.keys.length > keys.length) {
    throw new OrreryError("keys_conflict", "The node has keys that its chain does not declare.");
  }
  const recipient = { nodeId: set.nodeId, installationId };
  const sealed = await withDek(set, masterWrapping(config.MASTER_SECRET), (dek) =>
    sealDek(dek, recipient, hexToBytes(sealingKey), {
      ephemeralSecret: random(EXCHANGE_KEY_BYTES),
      nonce: random(NONCE_BYTES),
    }),
  );
  return { type: "INJECT_KEYS", sealedDek: base64Encode(sealed), keys, keysMac: base64Encode(hexToBytes(set.keysMac)) };
}

function activeInstallation({ installations }: Pick<NodeView, "installations">) {
  const active = installations.find(({ status }) => status === "active");
  if (active === undefined || active.installationId === null || active.sealingKey === null) {
    throw new OrreryError("no_installation", "No agent of the node has enrolled its keys.");
  }
  return { installationId: active.installationId, sealingKey: active.sealingKey };
}

function injectedKey({ keys }: NodeKeySet, { name, type, file }: DeclaredKey): InjectedKey {
  const key = keys.find((stored) => stored.name === name && stored.type === type);
  if (key === undefined) throw new OrreryError("keys_missing", `The node has no key ${name} of type ${type}.`);
  return {
    name,
    keyType: key.type,
    source: key.source,
    publicKey: key.publicKey,
    nonce: base64Encode(hexToBytes(key.nonce)),
    ciphertext: base64Encode(hexToBytes(key.ciphertext)),
    path: file.path,
    owner: file.owner,
    mode: file.mode,
  };
}
