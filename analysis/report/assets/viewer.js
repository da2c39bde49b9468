// Two trajectories of one task beside each other, step by step.

const viewer = {
  open: false,
  left: -1,
  right: -1,
  onlyDifferences: false,

  /** Shows an episode beside another, or beside its counterpart; -1 on the right is none. */
  async show(left, right = undefined, query = "") {
    if (right === undefined) [left, right] = this.besides(left);
    Object.assign(this, { left, right, query });
    if (!this.open) {
      this.before = document.activeElement;
      this.scroll = scrollY;
    }
    this.open = true;
    $("viewer").hidden = false;
    document.body.classList.add("viewing");
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const [a, b] = await Promise.all([left, right].map((n) => (n < 0 ? null : store.trajectory(n))));
    if (turn !== this.turn) return; // another was asked for meanwhile
    this.draw(a, b);
    setHash(left, right);
  },

  /** Draws again what is open, where one of its episodes has gone on; the reader's place stays. */
  async redraw() {
    const turn = this.turn;
    const [a, b] = await Promise.all([this.left, this.right].map((n) => (n < 0 ? null : store.trajectory(n))));
    if (turn !== this.turn || !this.open) return;
    const box = $("viewer");
    const top = box.scrollTop;
    const atEnd = box.scrollHeight - top - box.clientHeight < 40;
    const unfolded = [...box.querySelectorAll("details")].map((details) => details.open);
    this.draw(a, b);
    box.querySelectorAll("details").forEach((details, at) => (details.open = Boolean(unfolded[at])));
    box.scrollTop = atEnd ? box.scrollHeight : top;
  },

  /** The side before on the left, the one after on the right; the episode asked for is one of them. */
  besides(n) {
    const all = store.counterparts(n).filter((each) => each !== n);
    const mate = all.find((each) => store.columns.change[each] > 0) ?? all[0];
    if (mate === undefined) return [n, -1];
    return store.columns.after[n] || !store.columns.after[mate] && mate < n ? [mate, n] : [n, mate];
  },

  close() {
    if (!this.open) return;
    this.open = false;
    this.turn++;
    $("viewer").hidden = true;
    $("viewer").replaceChildren();
    document.body.classList.remove("viewing");
    setHash(-1, -1);
    scrollTo(0, this.scroll);
    this.before?.focus?.({ preventScroll: true });
  },

  draw(a, b) {
    const sides = [prepare(a), prepare(b)];
    const pairs = this.right < 0 ? sides[0].map((_, i) => [i, null]) : alignItems(...sides);
    const body = el("div", { class: this.right < 0 ? "steps single" : "steps", role: "list", "aria-label": "Steps" });
    let differences = 0;
    for (const [i, j] of pairs) {
      const row = this.row(sides[0][i], sides[1][j]);
      if (row.dataset.state !== "same") row.id = `difference-${differences++}`;
      body.append(row);
    }
    this.at = -1;
    this.differences = this.right < 0 ? 0 : differences;
    $("viewer").replaceChildren(this.header(), this.sides(a, b), body, this.after(a, b));
    $("viewer").classList.toggle("only-differences", this.onlyDifferences && this.right >= 0);
    $("viewer").scrollTop = 0;
    $("viewer").focus();
    const hit = this.query && $("viewer").querySelector("mark");
    if (hit) hit.scrollIntoView({ block: "center" });
  },

  row(x, y) {
    const state = this.right < 0 ? "same" : x && y ? (x.signature === y.signature ? "same" : "changed") : "alone";
    const told = { same: "same", changed: "differs", alone: "only on one side" }[state];
    const [left, right] = state === "changed" ? differingLines(x.body, y.body) : [null, null];
    const cell = (item, marks) => (item ? card(item, marks, this.query) : el("div", { class: "gap", "aria-label": "no such step" }, "–"));
    const cells = this.right < 0 ? [cell(x, null)] : [cell(x, left), cell(y, right)];
    return el("div", { class: "pair", role: "listitem", "data-state": state }, this.right < 0 ? null : el("span", { class: "state" }, told), cells);
  },

  header() {
    const n = this.left;
    const button = (label, title, action, key) => el("button", { type: "button", title, "aria-label": title, "aria-keyshortcuts": key, click: action }, label);
    return el(
      "header",
      { class: "bar" },
      button("✕", "Close (Esc)", () => this.close(), "Escape"),
      el("h2", { id: "viewer-title", class: "mono" }, store.get("task_id", n)),
      el("span", { class: "note" }, `${store.get("suite", n)} · world ${store.get("world", n)} · replicate ${store.get("replicate", n)} · round ${store.get("round", n)} · ${store.get("phase", n)}`),
      el("span", { class: "tools" },
        this.right < 0 ? null : el("span", { class: "note", role: "status" }, `${this.differences} ${this.differences === 1 ? "step differs" : "steps differ"}`),
        this.right < 0 ? null : button("differences only", "Differences only (d)", () => this.toggle(), "d"),
        button("↑", "Previous episode (k)", () => table.step(-1), "k"),
        button("↓", "Next episode (j)", () => table.step(1), "j")),
    );
  },

  /** What stands above each column: which episode it is, how it ended, its skills. */
  sides(a, b) {
    const all = store.counterparts(this.left);
    const side = (n, trajectory, place) => {
      const choice = el("select", { "aria-label": place ? "Right side" : "Left side", change: (event) => {
        const chosen = Number(event.target.value);
        this.show(place ? this.left : chosen, place ? chosen : this.right, this.query);
      } });
      for (const each of place ? [-1, ...all] : all) {
        choice.append(el("option", { value: each, selected: each === n }, each < 0 ? "nothing beside it" : `${store.get("series", each)} (${store.get("lane", each)})`));
      }
      if (n < 0) return el("div", { class: "side" }, choice);
      const outcome = store.get("outcome", n);
      return el("div", { class: "side" }, choice,
        el("p", {}, el("b", { class: tone(outcome) }, outcome), `${store.get("experience", n) === "" ? "" : ` · n = ${store.get("experience", n)}`} · ${duration(store.get("time", n))}${store.get("tokens", n) ? ` · ${count(store.get("tokens", n))} tokens` : ""}${trajectory?.stop ? ` · ended: ${trajectory.stop}` : ""}`),
        trajectory ? skillsOf(trajectory) : el("p", { class: "none" }, "This trajectory is not in the page: `hermes-lab show` has it whole."),
        trajectory?.left_out ? el("p", { class: "note" }, `The first ${trajectory.left_out} messages are shown once the episode has ended.`) : null,
        trajectory?.error ? el("pre", { class: "bad" }, trajectory.error) : null);
    };
    return el("div", { class: this.right < 0 ? "sides single" : "sides" }, side(this.left, a, 0), all.length > 1 || this.right >= 0 ? side(this.right, b, 1) : null);
  },

  /** What was written, the review, and the work of child agents, folded. */
  after(a, b) {
    const one = (trajectory) => el("div", { class: "side" },
      (trajectory?.writes ?? []).map((write) => folded(`wrote: ${write.action} ${write.name}${write.path ? `/${write.path}` : ""} (${write.by})`, write.text ?? "", null, this.query)),
      (trajectory?.notes ?? []).map((note) => folded(`note: ${note.action} in ${note.name} (${note.by})`, note.text ?? "", null, this.query)),
      trajectory?.review_error ? el("p", { class: "bad" }, `the review failed: ${trajectory.review_error}`) : null,
      trajectory?.review ? this.more("review", trajectory.review) : null,
      (trajectory?.children ?? []).map((child) => this.child(child)));
    return el("div", { class: this.right < 0 ? "sides single after" : "sides after" }, one(a), this.right < 0 ? null : one(b));
  },

  more(title, items) {
    return el("details", {}, el("summary", {}, `${title}: ${items.length} turns`), prepare({ items }).map((item) => card(item, null, this.query)));
  },

  child(child) {
    return el("div", {}, this.more(`child agent: ${child.goal}`, child.items ?? []), child.error ? el("p", { class: "bad" }, child.error) : null, (child.children ?? []).map((each) => this.child(each)));
  },

  toggle() {
    this.onlyDifferences = !this.onlyDifferences;
    $("viewer").classList.toggle("only-differences", this.onlyDifferences && this.right >= 0);
  },

  /** To the next difference, or the one before. */
  jump(by) {
    if (!this.differences) return;
    this.at = (this.at + by + this.differences) % this.differences;
    const row = $(`difference-${this.at}`);
    $("viewer").querySelector(".pair.here")?.classList.remove("here");
    row.classList.add("here");
    row.scrollIntoView({ block: "center" });
  },
};

function skillsOf(trajectory) {
  const chips = (title, names, kind) => (names?.length ? el("p", { class: "chips" }, el("span", { class: "note" }, title), names.map((name) => el("code", { class: kind }, name))) : null);
  const listed = (trajectory.listed ?? []).filter((name) => !trajectory.loaded?.includes(name));
  const many = listed.length > 8 ? [...listed.slice(0, 8), `${listed.length - 8} more`] : listed;
  return el("div", {},
    chips("rules", trajectory.triggers, ""),
    chips("listed", many, ""),
    chips("loaded", trajectory.loaded, "loaded"),
    chips("followed", trajectory.followed, "loaded"),
    chips("wrote", trajectory.writes?.map((write) => write.name), "wrote"));
}

function tone(outcome) {
  return { solved: "good", "not solved": "bad", errored: "bad", "solved after feedback": "fair" }[outcome] ?? "";
}
