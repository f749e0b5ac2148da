/** Loaded before the agent: a host whose clock is wrong by years. Timers and `performance.now` go on as they are. */
const YEARS_MS = 7 * 365 * 24 * 3_600_000;
const RealDate = Date;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args) => Reflect.construct(target, args.length === 0 ? [target.now() - YEARS_MS] : args),
  apply: () => new RealDate(RealDate.now() - YEARS_MS).toString(),
  get: (target, name) => (name === "now" ? () => target.now() - YEARS_MS : Reflect.get(target, name)),
});
