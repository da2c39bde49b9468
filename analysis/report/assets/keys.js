// Keys, light and dark. The page of a report and the live view have the same ones.

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
$("theme").addEventListener("click", switchTheme);
$("help-button").addEventListener("click", () => $("help").showModal());
