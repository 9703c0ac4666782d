#!/usr/bin/env tsx
import { parseSelectors } from "./selectors.js";

async function main(argv: string[]): Promise<void> {
  console.log(parseSelectors(argv));
}

await main(process.argv.slice(2));
