export interface Selectors {
  ids: string[];
  all: boolean;
}

export function parseSelectors(argv: readonly string[]): Selectors {
  const ids: string[] = [];
  for (let i = 0; i < argv.length; i += 1) {
    if (argv[i] === "--id") ids.push(argv[(i += 1)] ?? "");
  }
  return { ids, all: argv.includes("--all") };
}
