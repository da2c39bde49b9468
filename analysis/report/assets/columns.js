// What the list of episodes of a report shows.

const COLUMNS = [
  ["task", (n) => store.get("task_id", n), "mono grow"],
  ["arm", (n) => store.get("series", n), "arm"],
  ["world", (n) => store.get("world", n), "figure"],
  ["round", (n) => `${store.get("round", n)}${store.get("phase", n) === "heldout" ? " held out" : ""}`, "figure"],
  ["outcome", (n) => store.get("outcome", n), "outcome"],
  ["pair", (n) => store.get("change", n), "change"],
  ["loaded", (n) => store.get("skills_loaded", n) || "", "figure"],
  ["wrote", (n) => store.get("skills_written", n) || "", "figure"],
  ["tokens", (n) => (store.get("tokens", n) ? count(store.get("tokens", n)) : ""), "figure"],
  ["time", (n) => duration(store.get("time", n)), "figure"],
];
const SORTED_BY = ["task_id", "series", "world", "round", "outcome", "change", "skills_loaded", "skills_written", "tokens", "time"];
