// One step of a trajectory as elements.

const LONG = 24; // lines of a text that are shown at once

/** The items of a trajectory, each with what the alignment compares and the text that is shown. */
function prepare(trajectory) {
  return (trajectory?.items ?? []).map((item) => {
    const calls = item.calls ?? [];
    const tools = item.kind === "tool" ? item.name : calls.map((call) => call.name).join(" ");
    const body = text(item);
    return { ...item, tools, body, signature: `${tools}\n${body}` };
  });
}

/** What an item says, as one text. */
function text(item) {
  if (item.kind === "verdict") {
    const missing = Object.entries(item.missing ?? {}).map(([name, reason]) => `${name}: ${reason || "missing"}`);
    return [`score ${item.score}`, ...missing].join("\n");
  }
  if (item.kind === "tool") return unfolded(item.text ?? "");
  const parts = [item.thought ? `(thinks) ${item.thought}` : "", item.text ?? ""];
  for (const call of item.calls ?? []) {
    const given = Object.entries(call.arguments ?? {}).map(([name, value]) => `  ${name}: ${shown(value)}`);
    parts.push([`${call.name}${call.raw ? ` ${call.raw}` : ""}`, ...given, call.error ? `  ! ${call.error}` : ""].filter(Boolean).join("\n"));
  }
  return parts.filter(Boolean).join("\n");
}

/** A tool's answer, which is JSON, with its texts as they are; any other text as it is. */
function unfolded(content) {
  let answer;
  try {
    answer = JSON.parse(content);
  } catch {
    return content;
  }
  if (answer === null || typeof answer !== "object" || Array.isArray(answer)) return content;
  return Object.entries(answer).map(([name, value]) => `${name}: ${shown(value)}`).join("\n");
}

function shown(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const lines = value.replace(/\n$/, "");
  return lines.includes("\n") ? `\n${lines}` : lines;
}

const KIND = { system: "system prompt", user: "user", assistant: "assistant", tool: "result", verdict: "verdict" };

/** An item as a card; `differing` are the places of lines to mark. */
function card(item, differing, query) {
  const failed = item.failed || item.calls?.some((call) => call.error);
  const spent = [item.tokens && `${count(item.tokens)} tokens`, item.seconds >= 0.05 && duration(item.seconds)].filter(Boolean);
  const head = el(
    "header",
    {},
    el("b", {}, KIND[item.kind]),
    item.tools ? el("code", {}, item.tools) : null,
    item.kind === "verdict" ? el("span", { class: item.solved ? "good" : "bad" }, item.solved ? "✓ solved" : "✗ not solved") : null,
    failed ? el("span", { class: "bad" }, "failed") : null,
    spent.length ? el("span", { class: "note" }, spent.join(" · ")) : null,
  );
  const body = item.kind === "system" ? folded("show the system prompt", item.body, differing, query) : lines(item.body, differing, query);
  return el("article", { class: `step ${item.kind}`, dir: "ltr" }, head, body);
}

function lines(body, differing, query) {
  const all = body.split("\n");
  const pre = el("pre", {}, rows(all.slice(0, LONG + 4 >= all.length ? all.length : LONG), 0, differing, query));
  if (all.length <= LONG + 4) return pre;
  const more = el("button", { type: "button", class: "more" }, `${all.length - LONG} more lines`);
  more.addEventListener("click", () => {
    pre.append(...rows(all.slice(LONG), LONG, differing, query));
    more.remove();
  });
  return el("div", {}, pre, more);
}

function rows(some, from, differing, query) {
  return some.map((line, at) => el("span", { class: differing?.has(from + at) ? "line differs" : "line" }, marked(line, query), "\n"));
}

/** A text that is built when it is opened; open at once where it holds what was searched for. */
function folded(title, body, differing, query) {
  const details = el("details", {}, el("summary", {}, title));
  const build = () => details.children.length === 1 && details.append(lines(body, differing, query));
  details.addEventListener("toggle", build);
  if (query && body.toLowerCase().includes(query)) {
    details.open = true;
    build();
  }
  return details;
}
