// Filters of the list, and the search through all messages, which the server does part by part.

const FILTERS = ["series", "outcome", "phase", "world", "round"];

const filters = {
  turn: 0,
  hits: null, // the server's numbers of the episodes whose messages hold the query

  open() {
    for (const name of FILTERS) {
      $(`filter-${name}`).append(el("option", { value: "" }, "all"));
      $(`filter-${name}`).addEventListener("change", () => this.apply());
    }
    $("query").addEventListener("input", () => this.change());
    $("deep").addEventListener("change", () => {
      $("query").placeholder = $("deep").checked ? "text of messages" : "task id";
      this.change();
    });
    $("clear").addEventListener("click", () => this.clear());
    $("filters").addEventListener("submit", (event) => event.preventDefault());
  },

  clear() {
    $("filters").reset();
    $("deep").dispatchEvent(new Event("change"));
  },

  query() {
    return $("query").value.trim().toLowerCase();
  },

  deepQuery() {
    return $("deep").checked ? this.query() : "";
  },

  /** The query is another one: searches the messages anew, if they are to be searched. */
  change() {
    const turn = ++this.turn;
    this.hits = null;
    $("progress").hidden = true;
    if (this.deepQuery()) this.search(this.deepQuery(), turn);
    this.apply();
  },

  async search(query, turn) {
    this.hits = new Set();
    const progress = $("progress");
    Object.assign(progress, { hidden: false, max: Math.max(store.byNumber.size, 1), value: 0 });
    for (let from = 0; from < store.byNumber.size; from = progress.value) {
      const { hits, searched } = await ask("search", { run: store.run, q: query, from });
      if (turn !== this.turn) return;
      hits.forEach((number) => this.hits.add(number));
      if (searched <= from) break;
      progress.value = searched;
      this.apply();
    }
    progress.hidden = true;
  },

  /** Offers every value that there is; what is chosen stays. */
  offer() {
    for (const name of FILTERS) {
      const select = $(`filter-${name}`);
      const values = store.names[name] ?? [...new Set(store.columns[name])].sort((a, b) => a - b).map(String);
      const there = new Set([...select.options].map((option) => option.value));
      if (values.every((value) => there.has(value)) && values.length === there.size - 1) continue;
      const chosen = select.value;
      select.replaceChildren(el("option", { value: "" }, "all"), ...values.map((value) => el("option", { value }, value)));
      select.value = values.includes(chosen) ? chosen : "";
    }
  },

  apply() {
    const wanted = [];
    for (const name of FILTERS) {
      const value = $(`filter-${name}`).value;
      if (!value) continue;
      const code = store.names[name] ? store.names[name].indexOf(value) : Number(value);
      wanted.push((n) => store.columns[name][n] === code);
    }
    const query = this.query();
    if (this.hits) wanted.push((n) => this.hits.has(store.columns.number[n]));
    else if (query) wanted.push((n) => store.lower[store.columns.task_id[n]].includes(query));
    const found = Array.from({ length: store.count }, (_, n) => n).filter((n) => wanted.every((test) => test(n)));
    table.set(found);
    const told = `${store.complete ? "" : "reading; "}${count(found.length)} of ${count(store.count)} episodes`;
    if ($("count").textContent !== told) $("count").textContent = told; // else it would be read out again
  },
};
