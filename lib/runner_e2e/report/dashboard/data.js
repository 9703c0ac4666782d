// The results, which lie in the page as base64 of gzip: what everything needs, and each cell's details in blocks.

const blocks = new Map();

function readBase64(id) {
  const content = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(content);
  return Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
}

async function unpack(id) {
  const stream = new Blob([readBase64(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// The whole record of a cell, or null when the page left it out.
async function readDetails(cell) {
  if (cell.block === null) return null;
  const id = `block-${cell.block}`;
  if (!blocks.has(id)) blocks.set(id, unpack(id));
  return (await blocks.get(id))[cell.position];
}

function readPicture(cell) {
  const content = document.getElementById(`picture-${cell.number}`)?.textContent;
  return content ? `data:image/png;base64,${content}` : null;
}

function prepareCells(results) {
  results.cells.forEach((cell, number) => {
    cell.number = number;
    cell.mark = markOf(cell);
    cell.rank = RANKS.get(cell.mark) - (cell.flaky && cell.mark === "passed" ? 0.5 : 0);
    const words = [cell.name, cell.message, cell.rule, cell.status, cell.failureClass, cell.model, cell.provider, endWords(cell)];
    cell.words = words.filter(Boolean).join("\n").normalize("NFC").toLowerCase();
  });
  return results.cells;
}
