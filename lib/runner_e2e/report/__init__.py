"""Turn evidence into what people read: Markdown for summaries, tables for a terminal. Reads evidence only."""
