// Filters, and the search through all messages, which decodes one chunk after the other and can be left at any time.

const FILTERS = ["series", "outcome", "change", "phase", "world", "round"];

const filters = {
  hits: null, // episodes whose messages hold the query, once they were searched
  turn: 0,

  open() {
    for (const name of FILTERS) {
      const values = store.names[name] ?? [...new Set(store.columns[name])].sort((a, b) => a - b).map(String);
      const some = name === "change" ? [["lost or gained", "changed"], ...values.map((value) => [value, value])] : values.map((value) => [value, value]);
      const choices = some.filter(([label]) => label !== "").map(([label, value]) => el("option", { value }, label));
      $(`filter-${name}`).append(el("option", { value: "" }, "all"), ...choices);
      $(`filter-${name}`).addEventListener("change", () => this.apply());
    }
    $("filter-loaded").addEventListener("change", () => this.apply());
    $("query").addEventListener("input", () => this.apply());
    $("deep").addEventListener("change", () => {
      $("query").placeholder = $("deep").checked ? "text of messages" : "task id";
      this.apply();
    });
    $("deeper").addEventListener("click", () => $("deep").click());
    $("clear").addEventListener("click", () => $("filters").reset());
    $("filters").addEventListener("reset", () => setTimeout(() => $("deep").dispatchEvent(new Event("change"))));
    $("filters").addEventListener("submit", (event) => event.preventDefault());
  },

  query() {
    return $("query").value.trim().toLowerCase();
  },

  /** What to mark in the viewer: only what was searched for in messages. */
  deepQuery() {
    return $("deep").checked ? this.query() : "";
  },

  apply() {
    const turn = ++this.turn;
    const episodes = this.filtered();
    const query = this.query();
    $("progress").hidden = $("deeper").hidden = true;
    if (query && $("deep").checked) {
      this.search(episodes, query, turn);
      return;
    }
    const tasks = store.lower.map((task) => task.includes(query));
    const found = query ? episodes.filter((n) => tasks[store.columns.task_id[n]]) : episodes;
    this.show(found);
    $("deeper").hidden = !query || found.length > 0;
  },

  filtered() {
    const wanted = [];
    for (const name of FILTERS) {
      const value = $(`filter-${name}`).value;
      if (!value) continue;
      const column = store.columns[name];
      if (value === "changed") wanted.push((n) => ["lost", "gained"].includes(store.get("change", n)));
      else {
        const code = store.names[name] ? store.names[name].indexOf(value) : Number(value);
        wanted.push((n) => column[n] === code);
      }
    }
    if ($("filter-loaded").checked) wanted.push((n) => store.columns.skills_loaded[n] > 0);
    return Array.from({ length: store.count }, (_, n) => n).filter((n) => wanted.every((test) => test(n)));
  },

  /** Hits stand in the list as they are found. */
  async search(episodes, query, turn) {
    const byChunk = new Map();
    for (const n of episodes) {
      const number = store.columns.chunk[n];
      if (number >= 0) byChunk.set(number, [...(byChunk.get(number) ?? []), n]);
    }
    const progress = $("progress");
    Object.assign(progress, { hidden: false, max: Math.max(byChunk.size, 1), value: 0 });
    const hits = [];
    for (const [number, some] of byChunk) {
      const trajectories = JSON.parse(await inflate(`c${number}`));
      if (turn !== this.turn) return;
      for (const n of some) if (holds(trajectories[store.columns.at[n]], query)) hits.push(n);
      progress.value++;
      this.show(hits, `searched ${progress.value} of ${progress.max} parts; `);
    }
    progress.hidden = true;
    const absent = episodes.filter((n) => store.columns.chunk[n] < 0).length;
    this.show(hits, absent ? `${count(absent)} trajectories are not in the page; ` : "");
  },

  show(episodes, told = "") {
    table.set(episodes);
    $("count").textContent = `${told}${count(episodes.length)} of ${count(store.count)} episodes`;
  },
};

/** Whether any text of a trajectory, as it is shown, holds the query. */
function holds(trajectory, query) {
  const found = (items) => (items ?? []).some((item) => text(item).toLowerCase().includes(query));
  const child = (one) => one.goal.toLowerCase().includes(query) || found(one.items) || (one.children ?? []).some(child);
  const written = [...(trajectory.writes ?? []), ...(trajectory.notes ?? [])];
  return (
    found(trajectory.items) || found(trajectory.review) || (trajectory.children ?? []).some(child) ||
    (trajectory.error ?? "").toLowerCase().includes(query) ||
    written.some((write) => `${write.name}\n${write.text ?? ""}`.toLowerCase().includes(query))
  );
}
