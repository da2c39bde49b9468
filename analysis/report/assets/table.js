// The list of episodes, whose COLUMNS a page defines: only the rows in sight are elements, so that ten thousand scroll like ten.

const ROW = 32;
const table = {
  shown: [],
  chosen: 0,
  sorted: { by: null, down: false },

  open() {
    const heads = COLUMNS.map(([title, , kind], c) => el("span", { role: "columnheader", class: kind }, el("button", { type: "button", tabindex: -1, click: () => this.sort(c) }, title)));
    $("grid").querySelector(".head").append(...heads);
    $("grid").setAttribute("aria-colcount", COLUMNS.length);
    $("grid").addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe($("grid"));
    $("rows").addEventListener("click", (event) => {
      const row = event.target.closest("[data-at]");
      if (!row) return;
      this.choose(Number(row.dataset.at));
      this.enter();
    });
  },

  /** Sorts by a column, at the second time the other way round, at the third lane by lane again. */
  sort(c) {
    const again = this.sorted.by === c;
    this.sorted = again && this.sorted.down ? { by: null, down: false } : { by: c, down: again };
    [...$("grid").querySelector(".head").children].forEach((head, at) => {
      const here = this.sorted.by === at;
      if (here) head.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.set(this.shown);
  },

  order(episodes) {
    const { by, down } = this.sorted;
    const usual = store.columns.order;
    const column = by === null ? usual : store.columns[SORTED_BY[by]];
    const names = by === null ? undefined : store.names[SORTED_BY[by]];
    const rank = names && new Map([...names].sort().map((name, at) => [name, at]));
    const value = rank ? (n) => rank.get(names[column[n]]) : (n) => column[n];
    return episodes.slice().sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)) || usual[a] - usual[b]);
  },

  /** Shows these episodes. */
  set(episodes) {
    const current = this.shown[this.chosen];
    episodes = this.order(episodes);
    this.shown = episodes;
    this.chosen = Math.max(episodes.indexOf(current), 0);
    $("rows").style.height = `${episodes.length * ROW}px`;
    $("grid").setAttribute("aria-rowcount", episodes.length + 1);
    $("grid").style.setProperty("--rows", Math.min(Math.max(episodes.length, 1), 16));
    this.draw();
  },

  draw() {
    const grid = $("grid");
    const first = Math.max(Math.floor(grid.scrollTop / ROW) - 4, 0);
    const last = Math.min(first + Math.ceil(grid.clientHeight / ROW) + 8, this.shown.length);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(at));
    $("rows").replaceChildren(...rows);
    if (this.chosen >= first && this.chosen < last) grid.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else grid.removeAttribute("aria-activedescendant");
  },

  row(at) {
    const n = this.shown[at];
    const chosen = at === this.chosen;
    const row = el("div", { class: chosen ? "row chosen" : "row", role: "row", id: `row-${at}`, "aria-rowindex": at + 2, "aria-selected": chosen, "data-at": at });
    row.style.transform = `translateY(${at * ROW}px)`;
    for (const [title, value, kind] of COLUMNS) {
      const text = value(n);
      const extra = title === "outcome" ? ` ${tone(text)}` : title === "pair" && (text === "lost" || text === "gained") ? ` ${text}` : "";
      row.append(el("span", { role: "gridcell", class: kind + extra }, text));
    }
    return row;
  },

  choose(at) {
    if (!this.shown.length) return;
    this.chosen = Math.min(Math.max(at, 0), this.shown.length - 1);
    const grid = $("grid");
    const top = this.chosen * ROW;
    const room = grid.clientHeight - ROW; // less the head, which stays
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + ROW > grid.scrollTop + room) grid.scrollTop = top + ROW - room;
    this.draw();
  },

  /** Opens the chosen episode. */
  enter() {
    if (this.shown.length) return viewer.show(this.shown[this.chosen], undefined, filters.deepQuery());
  },

  /** To another episode; with the viewer open, in it. */
  step(by) {
    this.choose(this.chosen + by);
    if (viewer.open) this.enter();
  },
};
