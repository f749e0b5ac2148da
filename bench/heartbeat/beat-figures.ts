import { median, span } from "../numbers.ts";
import type { Line } from "./lines.ts";
import { measure, type Pace, type Processes, type Window } from "./load.ts";

/** Something that answers beats, with a connection of each node and the processes that serve them. */
export interface Subject {
  readonly name: string;
  readonly lines: readonly Line[];
  /** Ids by name; what the bench itself uses is among them. */
  readonly processes: Processes;
}

export interface BeatPlan {
  /** What the pace is called, what it is, and how long one window of it lasts. */
  readonly pace: string;
  readonly beats: Pace;
  readonly windowMs: number;
  readonly rounds: number;
}

/** One subject at one number of nodes and one pace: medians over the rounds. */
export interface BeatFigures {
  readonly nodes: number;
  readonly pace: string;
  readonly subject: string;
  readonly beatsPerSecond: number;
  /** Beats of all rounds that were answered, and that nobody answered. */
  readonly answered: number;
  readonly missing: number;
  readonly microsPerBeat: Readonly<Record<string, Cost>>;
}

export interface Cost {
  readonly median: number;
  readonly least: number;
  readonly most: number;
  /** Round by round, for ratios between subjects of one round. */
  readonly rounds: readonly number[];
}

/**
 * Measures the subjects one after the other, round by round (a, b, c, a, b, c, ...), so that whatever else happens on the
 * machine meets all of them alike.
 */
export async function compareBeats(
  nodes: number,
  subjects: readonly Subject[],
  { pace, beats, windowMs, rounds }: BeatPlan,
): Promise<readonly BeatFigures[]> {
  const windows = new Map<string, Window[]>(subjects.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, lines, processes } of subjects) {
      windows.get(name)?.push(await measure(lines.slice(0, nodes), beats, windowMs, processes));
    }
  }
  return [...windows].map(([subject, of]) => figures(nodes, pace, subject, of));
}

/**
 * How many times one process's cost the other's is: the median of the ratios within each round.
 * @throws when one of them was not measured
 */
export function costRatio(one: BeatFigures, process: string, other: BeatFigures, otherProcess: string): number {
  const above = one.microsPerBeat[process]?.rounds ?? [];
  const below = other.microsPerBeat[otherProcess]?.rounds ?? [];
  if (above.length === 0 || above.length !== below.length)
    throw new Error(`${process} and ${otherProcess} do not compare.`);
  return median(above.map((cost, round) => cost / (below[round] ?? Number.NaN)));
}

function figures(nodes: number, pace: string, subject: string, windows: readonly Window[]): BeatFigures {
  const names = Object.keys(windows[0]?.cpu ?? {});
  return {
    nodes,
    pace,
    subject,
    beatsPerSecond: median(windows.map(({ answered, seconds }) => answered / seconds)),
    answered: windows.reduce((total, { answered }) => total + answered, 0),
    missing: windows.reduce((total, { missing }) => total + missing, 0),
    microsPerBeat: Object.fromEntries(names.map((name) => [name, costOf(windows, name)])),
  };
}

function costOf(windows: readonly Window[], process: string): Cost {
  const rounds = windows.map(({ cpu, answered }) => (cpu[process] ?? Number.NaN) / answered);
  return { median: median(rounds), ...span(rounds), rounds };
}
