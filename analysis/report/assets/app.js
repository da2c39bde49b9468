// Keys, light and dark, and addresses within the page.

function setHash(left, right) {
  const at = new URLSearchParams();
  if (left >= 0) {
    at.set("episode", store.key(left));
    at.set("run", store.columns.run[left]);
  }
  if (right >= 0) {
    at.set("with", store.key(right));
    at.set("withrun", store.columns.run[right]);
  }
  history.replaceState(null, "", left < 0 ? location.pathname + location.search : `#${at}`);
}

/** Opens what the address names. An episode that is not here is said, not ignored. */
function followHash() {
  if (!location.hash.startsWith("#episode=")) return;
  const at = new URLSearchParams(location.hash.slice(1));
  const left = store.find(at.get("episode"), Number(at.get("run") ?? 0));
  const right = at.has("with") ? store.find(at.get("with"), Number(at.get("withrun") ?? 0)) : undefined;
  if (left < 0) {
    $("count").textContent = `No episode ${visible(at.get("episode"))} in this report.`;
    $("episodes").scrollIntoView();
    return;
  }
  table.choose(table.shown.indexOf(left));
  viewer.show(left, right, filters.deepQuery());
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

const KEYS = {
  j: () => table.step(1),
  k: () => table.step(-1),
  ArrowDown: () => table.step(1),
  ArrowUp: () => table.step(-1),
  Enter: () => table.enter(),
  "/": () => toList("query"),
  f: () => toList("filter-series"),
  n: () => viewer.open && viewer.jump(1),
  p: () => viewer.open && viewer.jump(-1),
  d: () => viewer.open && viewer.toggle(),
  t: switchTheme,
  "?": () => $("help").showModal(),
};

function toList(id) {
  viewer.close();
  $("episodes").scrollIntoView();
  $(id).focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const field = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    if (field && !viewer.open) field.blur();
    else viewer.close();
    return;
  }
  // Enter in the search box goes to the list; else a field keeps its keys.
  if (field && !(event.key === "Enter" && field.id === "query")) return;
  const isArrow = event.key.startsWith("Arrow");
  const inList = document.activeElement === $("grid") || field?.id === "query";
  if (isArrow && (viewer.open || !inList)) return; // they scroll
  if (event.key === "Enter" && (viewer.open || !inList)) return; // a link's or a button's own
  if (event.key === "Enter" && field) {
    $("grid").focus();
    event.preventDefault();
    return;
  }
  if (!KEYS[event.key] || !store.columns) return;
  event.preventDefault();
  if ((event.key === "j" || event.key === "k") && !viewer.open) $("grid").focus({ preventScroll: false });
  KEYS[event.key]();
}

/** Tab stays in the viewer while it covers the page. */
function keepFocus(event) {
  if (event.key !== "Tab" || !viewer.open) return;
  const all = [...$("viewer").querySelectorAll("button, select, summary, a[href]")].filter((node) => node.offsetParent);
  const [first, last] = [all[0], all.at(-1)];
  if (event.shiftKey && (document.activeElement === first || document.activeElement === $("viewer"))) last.focus();
  else if (!event.shiftKey && document.activeElement === last) first.focus();
  else return;
  event.preventDefault();
}

addEventListener("keydown", onKey);
addEventListener("keydown", keepFocus);
addEventListener("hashchange", followHash);
$("theme").addEventListener("click", switchTheme);
$("help-button").addEventListener("click", () => $("help").showModal());

store.open().then(() => {
  table.open();
  filters.open();
  filters.apply();
  followHash();
  document.documentElement.dataset.ready = "yes";
});
