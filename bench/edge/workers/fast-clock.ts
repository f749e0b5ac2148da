import { useClock } from "../../../durable-objects/shared/clock.ts";

/**
 * A clock that runs faster than the real one from a moment on. It takes the place of `Date.now` in the whole isolate, so
 * that objects, sweeps and queries agree; what the runtime does itself (alarms, stamps) is translated at its boundary.
 */
export class FastClock {
  readonly #from: number;
  readonly #speed: number;

  /** @param speed seconds of this clock in a real one */
  constructor(from: number, speed: number) {
    this.#from = from;
    this.#speed = speed;
    const realNow = Date.now;
    const now = () => this.#toFast(realNow());
    Date.now = now;
    useClock({ now, at: (stamp) => this.#toFast(stamp.getTime()) });
  }

  /** Has the runtime ring the alarm at the real moment that its time on this clock stands for. */
  translateAlarms(storage: DurableObjectStorage): void {
    const getAlarm = storage.getAlarm.bind(storage);
    const setAlarm = storage.setAlarm.bind(storage);
    storage.getAlarm = async (options) => {
      const at = await getAlarm(options);
      return at === null ? null : this.#toFast(at);
    };
    storage.setAlarm = (at, options) => setAlarm(Math.ceil(this.#toReal(Number(at))), options);
  }

  alarmInfo(info: AlarmInvocationInfo): AlarmInvocationInfo {
    return { ...info, scheduledTime: this.#toFast(info.scheduledTime) };
  }

  #toFast(real: number): number {
    return this.#from + (real - this.#from) * this.#speed;
  }

  #toReal(fast: number): number {
    return this.#from + (fast - this.#from) / this.#speed;
  }
}
