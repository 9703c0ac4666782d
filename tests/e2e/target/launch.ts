#!/usr/bin/env tsx
import { parseSelectors, takeSelectedId } from "./selectors.js";

async function main(argv: string[]): Promise<void> {
  const selected = takeSelectedId();
  if (selected) argv.push("--id", selected);
  console.log(parseSelectors(argv));
}

await main(process.argv.slice(2));
