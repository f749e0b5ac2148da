/** Uses secret bytes and overwrites them afterwards, also when that fails. */
export async function withSecret<S extends Uint8Array, T>(secret: S, use: (secret: S) => T | Promise<T>): Promise<T> {
  try {
    return await use(secret);
  } finally {
    secret.fill(0);
  }
}
