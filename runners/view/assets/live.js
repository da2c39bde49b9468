// The page: asks the server what there is once a second, and shows it. The address names what is open.

const TICK = 700; // milliseconds between an answer and the next question
const SHOWN = 8; // running episodes in the panel
const STATES = { running: "good", stopped: "bad", incomplete: "fair", "ended early": "note", finished: "note", reading: "note" };

const live = {
  runs: [],
  chosen: "",
  turn: 0,
  held: false, // a button that is replaced while it is pressed would not be clicked

  async tick() {
    const { turn } = this;
    try {
      const { runs, run } = await ask("now", { run: this.chosen, from: store.next, begun: store.begun });
      for (let waited = 0; this.held && waited < 100; waited++) await new Promise((resume) => setTimeout(resume, 50));
      if (turn !== this.turn) return; // another run was chosen meanwhile
      $("connection").textContent = "";
      this.runs = runs;
      this.drawRuns();
      if (!this.chosen && runs.length) return this.choose(runs[0].name); // the newest
      if (run) this.show(run);
      document.documentElement.dataset.ready = "yes";
      this.later(run && !run.complete ? 0 : TICK);
    } catch {
      $("connection").textContent = "No answer: is hermes-lab view still running?";
      this.later(3 * TICK);
    }
  },

  later(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.tick(), milliseconds);
  },

  choose(name) {
    this.turn++;
    this.chosen = name;
    store.clear(name);
    filters.clear();
    setHash(-1, -1);
    clearTimeout(this.timer);
    return this.tick();
  },

  drawRuns() {
    const rows = this.runs.map((run) =>
      el("button", { type: "button", class: "run", "aria-pressed": String(run.name === this.chosen), "data-run": run.name, click: () => this.choose(run.name) },
        el("span", { class: "mono" }, run.name),
        el("b", { class: STATES[run.state] }, run.state),
        el("progress", { max: Math.max(run.wanted, 1), value: run.finished, "aria-label": "Progress" }),
        el("span", { class: "figure" }, `${count(run.finished)}/${count(run.wanted)}`),
        el("span", { class: "figure created note" }, run.created.slice(0, 16).replace("T", " "))));
    const focused = document.activeElement?.dataset?.run;
    const top = $("runs").scrollTop;
    $("runs").replaceChildren(...(rows.length ? rows : [el("p", { class: "none" }, "No run here yet.")]));
    $("runs").scrollTop = top;
    if (focused !== undefined) [...$("runs").children].find((row) => row.dataset.run === focused)?.focus({ preventScroll: true });
  },

  show(told) {
    const fresh = told.fresh;
    const moved = store.take(told);
    $("chosen").hidden = false;
    this.drawHead();
    this.drawRunning();
    if (told.curves) drawCurves(told.curves);
    if (moved.size || fresh) {
      filters.offer();
      filters.apply();
    } else if (store.running.size) table.draw();
    if (viewer.open && [viewer.left, viewer.right].some((n) => moved.has(n))) viewer.redraw();
    if (viewer.open) drawNow();
    if (this.wanted && (store.complete || store.find(this.wanted.episode) >= 0)) this.follow();
  },

  drawHead() {
    const run = this.runs.find((each) => each.name === this.chosen);
    if (!run) return;
    document.title = `${run.finished}/${run.wanted} · ${run.name} · Hermes Lab`;
    $("run-title").textContent = visible(run.name);
    const parts = [`${run.finished.toLocaleString("en")} of ${run.wanted.toLocaleString("en")} episodes finished`];
    if (run.judged) parts.push(`${Math.round((100 * run.solved) / run.judged)} % solved at the first submission`);
    if (run.errored) parts.push(`${run.errored} errored`);
    if (run.running) parts.push(`${run.running} running`);
    $("run-state").replaceChildren(el("b", { class: STATES[run.state] }, run.state), ` · ${visible(run.model)} · ${parts.join(" · ")}`);
    const warnings = [];
    if (run.damaged) warnings.push(`${run.damaged} ${run.damaged === 1 ? "line of the log cannot" : "lines of the log cannot"} be read and ${run.damaged === 1 ? "is" : "are"} left out.`);
    if (run.state === "stopped") warnings.push("The process of this run is gone. `--resume` runs what is missing.");
    $("warnings").hidden = !warnings.length;
    $("warnings").replaceChildren(...warnings.map((line) => el("li", {}, line)));
  },

  drawRunning() {
    const keys = [...store.running.keys()].filter((key) => !store.running.get(key).stopped);
    const rows = keys.slice(0, SHOWN).map((key) => {
      const n = store.find(key);
      return el("li", {}, el("button", { type: "button", "data-key": key, click: () => viewer.show(n, -1) },
        el("span", { class: "mono" }, `${store.get("task_id", n)} · ${store.get("series", n)}`), el("span", { class: "note" }, store.waits(n))));
    });
    const focused = document.activeElement?.dataset?.key;
    $("running").replaceChildren(...rows);
    if (focused !== undefined) [...$("running").querySelectorAll("button")].find((row) => row.dataset.key === focused)?.focus({ preventScroll: true });
    $("now").hidden = !keys.length;
    $("running-rest").textContent = keys.length > SHOWN ? `and ${keys.length - SHOWN} more: choose the outcome "running" below` : "";
  },

  /** Opens the run and the episodes that the address names. */
  follow() {
    const { episode, beside } = this.wanted;
    this.wanted = null;
    const left = store.find(episode);
    if (left < 0) {
      $("count").textContent = `No episode ${visible(episode)} in this run.`;
      return;
    }
    table.choose(table.shown.indexOf(left));
    viewer.show(left, beside ? store.find(beside) : -1, filters.deepQuery());
  },
};

/** What a running episode that is open waits for. */
function drawNow() {
  document.querySelectorAll("#viewer .sides:not(.after) > .side").forEach((side, at) => {
    const n = at ? viewer.right : viewer.left;
    const waits = n < 0 ? "" : store.waits(n);
    const line = side.querySelector(".now") ?? el("p", { class: "now fair" });
    line.textContent = waits;
    if (waits && !line.isConnected) side.append(line);
  });
}

function setHash(left, right) {
  const at = new URLSearchParams();
  if (live.chosen) at.set("run", live.chosen);
  if (left >= 0) at.set("episode", store.key(left));
  if (right >= 0) at.set("with", store.key(right));
  history.replaceState(null, "", at.size ? `#${at}` : location.pathname);
}

function followHash() {
  const at = new URLSearchParams(location.hash.slice(1));
  const run = at.get("run") ?? "";
  const wanted = at.has("episode") ? { episode: at.get("episode"), beside: at.get("with") } : null;
  if (run && run !== live.chosen) {
    live.choose(run);
    live.wanted = wanted;
  } else if (wanted && run) {
    live.wanted = wanted;
    live.follow();
  }
  return run !== "";
}

addEventListener("hashchange", followHash);
addEventListener("pointerdown", () => (live.held = true));
for (const end of ["click", "pointercancel", "dragend"]) addEventListener(end, () => (live.held = false));
addEventListener("pointerup", () => setTimeout(() => (live.held = false)));
store.open();
table.open();
filters.open();
if (!followHash()) live.tick();
