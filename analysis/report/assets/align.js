// Which step of one trajectory answers to which of another, and which lines of two texts differ.

/** Pairs of places [i, j], null where one side has nothing: the alignment of greatest total likeness
 * (Needleman and Wunsch 1970, gaps cost nothing). `likeness` 0 is never aligned. */
function align(a, b, likeness) {
  const width = b.length + 1;
  const best = new Float64Array((a.length + 1) * width);
  const score = new Float64Array(a.length * b.length);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const like = likeness(a[i], b[j]);
      score[i * b.length + j] = like;
      const both = like > 0 ? like + best[(i + 1) * width + j + 1] : 0;
      best[i * width + j] = Math.max(both, best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const pairs = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const like = score[i * b.length + j];
    const here = best[i * width + j];
    if (like > 0 && here === like + best[(i + 1) * width + j + 1]) pairs.push([i++, j++]);
    else if (here === best[(i + 1) * width + j]) pairs.push([i++, null]);
    else pairs.push([null, j++]);
  }
  while (i < a.length) pairs.push([i++, null]);
  while (j < b.length) pairs.push([null, j++]);
  return pairs;
}

/** How like two items of a trajectory are: 0 for another kind or another tool, most for the same text. */
function likeness(a, b) {
  if (a.kind !== b.kind || a.tools !== b.tools) return 0;
  return a.signature === b.signature ? 3 : 1;
}

/** The parts of a trajectory that end in a verdict, as places [from, to). */
function attempts(items) {
  const ends = items.flatMap((item, at) => (item.kind === "verdict" ? [at + 1] : []));
  if (ends.at(-1) !== items.length) ends.push(items.length);
  return ends.map((end, at) => [at ? ends[at - 1] : 0, end]);
}

/** The pairs of places of two trajectories' items, attempt by attempt: a first submission answers to a first one.
 * Where there are too many, the items are taken in their order. */
function alignItems(a, b) {
  if (a.length * b.length > 4e6) {
    return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => [at < a.length ? at : null, at < b.length ? at : null]);
  }
  const [left, right] = [attempts(a), attempts(b)];
  return Array.from({ length: Math.max(left.length, right.length) }, (_, at) => {
    const [i, iEnd] = left[at] ?? [a.length, a.length];
    const [j, jEnd] = right[at] ?? [b.length, b.length];
    const pairs = align(a.slice(i, iEnd), b.slice(j, jEnd), likeness);
    return pairs.map(([x, y]) => [x === null ? null : x + i, y === null ? null : y + j]);
  }).flat();
}

const MOST_LINES = 800;

/** The lines of each of two texts that the other does not have there, as sets of places; null for long texts. */
function differingLines(left, right) {
  const a = left.split("\n");
  const b = right.split("\n");
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [null, null];
  const sides = [new Set(a.keys()), new Set(b.keys())];
  for (const [i, j] of align(a, b, (x, y) => (x === y ? 1 : 0))) {
    if (i !== null && j !== null) {
      sides[0].delete(i);
      sides[1].delete(j);
    }
  }
  return sides;
}
