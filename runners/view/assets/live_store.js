// The episodes of the chosen run: finished ones as the server tells of them, running ones until their record is there.

const RECORD = ["suite", "task_id", "lane", "series", "phase", "round", "sample", "world", "experience", "outcome", "skills_loaded", "skills_written", "tokens", "time"];
const NAMES = ["suite", "task_id", "lane", "series", "phase", "outcome"];
const WAITS_FOR = { sandbox: "its sandbox", model: "the model", command: "a command", verifier: "the verifier", review: "its review" };

async function ask(what, query) {
  const answer = await fetch(`api/${what}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

/** 0:37 or 1:02:03, as in the terminal. */
function clock(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  const two = (n) => String(n).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

const store = {
  open() {
    this.clear("");
  },

  clear(run) {
    Object.assign(this, { run, count: 0, next: 0, begun: "", changed: 0, complete: false });
    this.columns = Object.fromEntries([...RECORD, "run", "change", "group", "after", "order", "number", "replicate"].map((name) => [name, []]));
    this.names = Object.fromEntries([...NAMES, "change"].map((name) => [name, []]));
    this.names.change.push("");
    this.codes = Object.fromEntries(NAMES.map((name) => [name, new Map()]));
    this.numbers = new Map(); // key -> place
    this.byNumber = new Map(); // the server's number -> place
    this.groups = new Map();
    this.running = new Map(); // key -> {state, since, started, turn, stopped}
    this.ended = []; // outcomes of the records, by place
    this.over = new Set(); // running episodes whose record is there, though they may still be told of
    this.lower = [];
  },

  /** Takes what the server told of the run. Returns whether the list has changed, and which running episodes have
   * gone on or ended. */
  take({ begun, fresh, rows, next, running, state, complete }) {
    if (fresh && this.begun && this.begun !== begun) this.clear(this.run);
    Object.assign(this, { begun, next, complete });
    const moved = new Set();
    for (const [number, suite, task_id, lane, series, ...rest] of rows) {
      const n = this.put({ suite, task_id, lane, series, ...Object.fromEntries(RECORD.slice(4).map((name, at) => [name, rest[at]])) });
      this.columns.number[n] = number;
      this.ended[n] = this.get("outcome", n);
      const ran = this.running.get(this.key(n));
      if (ran) this.over.add(`${this.key(n)}|${ran.started}`);
      this.columns.order[n] = -++this.changed; // the newest first
      this.byNumber.set(number, n);
      moved.add(n);
    }
    const before = this.running;
    this.running = new Map();
    const stopped = state === "stopped";
    for (const [key, waits, since, started, turn, phase] of running) {
      const was = before.get(key);
      const n = this.numbers.get(key) ?? this.put(this.unfinished(key, phase));
      if (this.over.has(`${key}|${started}`) || (this.ended[n] && this.ended[n] !== "errored")) continue;
      this.columns.outcome[n] = this.code("outcome", stopped ? "stopped" : "running");
      this.columns.time[n] = stopped ? 0 : Date.now() / 1000 - started;
      this.columns.order[n] = since - 1e10; // the longest wait first, before all that have ended
      this.running.set(key, { state: waits, since, started, turn, stopped });
      if (!was || was.state !== waits || was.since !== since || was.stopped !== stopped) moved.add(n);
    }
    for (const key of before.keys()) {
      if (this.running.has(key)) continue;
      const n = this.numbers.get(key);
      moved.add(n);
      this.columns.outcome[n] = this.code("outcome", this.ended[n] ?? "ending");
    }
    return moved;
  },

  /** What the key of a running episode says of it. */
  unfinished(key, phase) {
    const [suite, task_id, lane, round, sample] = key.split("|");
    const place = /-r\d+-w(\d+)/.exec(lane);
    const series = lane.replace(/-r\d+-w\d+/, "");
    return { suite, task_id, lane, series, phase, round: Number(round), sample: Number(sample), world: Number(place?.[1] ?? 0), experience: "", outcome: "running", skills_loaded: 0, skills_written: 0, tokens: 0, time: 0 };
  },

  /** Adds an episode, or replaces what was known of it; returns its place. */
  put(record) {
    const key = [record.suite, record.task_id, record.lane, record.round, record.sample].join("|");
    const n = this.numbers.get(key) ?? this.count++;
    for (const name of RECORD) this.columns[name][n] = NAMES.includes(name) ? this.code(name, record[name]) : record[name];
    if (this.numbers.has(key)) return n;
    this.numbers.set(key, n);
    this.columns.run[n] = this.columns.change[n] = 0;
    this.columns.number[n] = -1;
    this.columns.replicate[n] = Number(/-r(\d+)-w\d+/.exec(record.lane)?.[1] ?? 0);
    this.columns.after[n] = record.series === "off" ? 0 : 1;
    const group = [record.suite, record.task_id, record.lane.replace(/^.*?(?=-r\d+-w\d+)/, ""), record.round, record.sample].join("|");
    this.columns.group[n] = group;
    if (this.groups.has(group)) this.groups.get(group).push(n);
    else this.groups.set(group, [n]);
    return n;
  },

  code(name, value) {
    const codes = this.codes[name];
    if (!codes.has(value)) {
      codes.set(value, this.names[name].length);
      this.names[name].push(value);
      if (name === "task_id") this.lower.push(value.toLowerCase());
    }
    return codes.get(value);
  },

  get(name, n) {
    const value = this.columns[name][n];
    return this.names[name] ? this.names[name][value] : value;
  },

  key(n) {
    return ["suite", "task_id", "lane", "round", "sample"].map((name) => this.get(name, n)).join("|");
  },

  find(key) {
    return this.numbers.get(key) ?? -1;
  },

  /** `turn 4, waiting for the model for 0:37`; "" for an episode that has ended. */
  waits(n) {
    const now = this.running.get(this.key(n));
    if (!now) return "";
    const what = WAITS_FOR[now.state] ?? now.state;
    const turn = now.turn ? `turn ${now.turn}, ` : "";
    return now.stopped ? `${turn}was waiting for ${what}` : `${turn}waiting for ${what} for ${clock(Date.now() / 1000 - now.since)}`;
  },

  /** The trajectory of an episode, so far if it runs; null where it cannot be read. */
  async trajectory(n) {
    const key = this.key(n);
    if (this.running.has(key)) {
      const found = await ask("transcript", { run: this.run, key });
      if (found) return found;
    }
    const number = this.columns.number[n];
    return number < 0 ? null : ask("transcript", { run: this.run, n: number });
  },

  counterparts(n) {
    return this.groups.get(this.columns.group[n]).slice().sort((a, b) => this.columns.after[a] - this.columns.after[b] || a - b);
  },
};

const COLUMNS = [
  ["task", (n) => store.get("task_id", n), "mono grow"],
  ["arm", (n) => store.get("series", n), "arm"],
  ["world", (n) => store.get("world", n), "figure"],
  ["round", (n) => `${store.get("round", n)}${store.get("phase", n) === "heldout" ? " held out" : ""}`, "figure"],
  ["outcome", (n) => store.get("outcome", n), "outcome"],
  ["waits for", (n) => shortWait(n), "waits"],
  ["loaded", (n) => store.get("skills_loaded", n) || "", "figure"],
  ["wrote", (n) => store.get("skills_written", n) || "", "figure"],
  ["tokens", (n) => (store.get("tokens", n) ? count(store.get("tokens", n)) : ""), "figure"],
  ["time", (n) => duration(store.get("time", n)), "figure"],
];
const SORTED_BY = ["task_id", "series", "world", "round", "outcome", "order", "skills_loaded", "skills_written", "tokens", "time"];

/** `the model, 0:37 · turn 4`. */
function shortWait(n) {
  const now = store.running.get(store.key(n));
  if (!now || now.stopped) return "";
  return `${WAITS_FOR[now.state] ?? now.state}, ${clock(Date.now() / 1000 - now.since)}${now.turn ? ` · turn ${now.turn}` : ""}`;
}
