// Addresses within the page.

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

addEventListener("hashchange", followHash);

store.open().then(() => {
  table.open();
  filters.open();
  filters.apply();
  followHash();
  document.documentElement.dataset.ready = "yes";
});
