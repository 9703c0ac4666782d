export interface Selectors {
  ids: string[];
  all: boolean;
}

const SELECTED = "PAPERCLIP_RUNNER_E2E_SELECTED_ID";

export function takeSelectedId(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const value = env[SELECTED]?.trim();
  delete env[SELECTED];
  return value || undefined;
}

export function parseSelectors(argv: readonly string[]): Selectors {
  const ids: string[] = [];
  for (let i = 0; i < argv.length; i += 1) {
    if (argv[i] === "--id") ids.push(argv[(i += 1)] ?? "");
  }
  return { ids, all: argv.includes("--all") };
}
