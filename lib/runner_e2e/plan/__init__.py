"""From a branch and selectors to a matrix: authorization, target, catalog, selection, rows."""
