"use strict";
// Before the first paint: the reader's choice of light or dark, where the browser remembers one.
try {
  const chosen = localStorage.getItem("runner-e2e-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is denied, as it may be for a local file: the system's choice holds.
}
