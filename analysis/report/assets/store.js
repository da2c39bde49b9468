// The list of episodes, and the trajectories in compressed chunks, each decoded when it is first looked at.

const KEPT = 8; // decoded chunks
const decoded = new Map();
const wholePage = new Promise((resolve) => {
  if (document.readyState === "complete") resolve();
  else addEventListener("load", resolve, { once: true });
});

/** The text of a block of the page: base64 of a zlib stream. The blocks stand last, so one may not be there yet. */
async function inflate(id) {
  if (!$(id)) await wholePage;
  const binary = atob($(id).textContent);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** The trajectories of a chunk; the last few chunks are kept. */
function chunk(number) {
  const found = decoded.get(number) ?? inflate(`c${number}`).then(JSON.parse);
  decoded.delete(number);
  decoded.set(number, found);
  if (decoded.size > KEPT) decoded.delete(decoded.keys().next().value);
  return found;
}

const store = {
  count: 0,
  /** Reads the list. */
  async open() {
    const { count, columns, names } = JSON.parse(await inflate("index"));
    Object.assign(this, { count, columns, names });
    this.groups = new Map();
    for (let n = 0; n < count; n++) {
      const group = columns.group[n];
      if (this.groups.has(group)) this.groups.get(group).push(n);
      else this.groups.set(group, [n]);
    }
    this.lower = names.task_id.map((task) => task.toLowerCase());
  },
  /** A column's value of an episode, by its name where the column is of names. */
  get(name, n) {
    const value = this.columns[name][n];
    return this.names[name] ? this.names[name][value] : value;
  },
  /** The episode's key, as in its record. */
  key(n) {
    return ["suite", "task_id", "lane", "round", "sample"].map((name) => this.get(name, n)).join("|");
  },
  /** The episode of a key in a run, or -1. */
  find(key, run) {
    for (let n = 0; n < this.count; n++) {
      if (this.columns.run[n] === run && key.startsWith(`${this.get("suite", n)}|${this.get("task_id", n)}|`) && this.key(n) === key) return n;
    }
    return -1;
  },
  /** The trajectory of an episode; null where the page does not hold it. */
  async trajectory(n) {
    const number = this.columns.chunk[n];
    return number < 0 ? null : (await chunk(number))[this.columns.at[n]];
  },
  /** The episodes of the same task in the same place, those before the change first. */
  counterparts(n) {
    return this.groups.get(this.columns.group[n]).slice().sort((a, b) => this.columns.after[a] - this.columns.after[b] || a - b);
  },
};
