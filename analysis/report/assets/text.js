// Elements and text. Nothing on this page is ever parsed as HTML after it was loaded: all content is text nodes.

const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** The text with a sign for each character that is not seen or that turns the direction of writing. */
function visible(text) {
  return text.replace(UNSEEN, (found) => {
    const code = found.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

/** An element; `attributes` are set as they are, functions as listeners; children are nodes or texts. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    node.append(typeof child === "object" ? child : visible(String(child)));
  }
  return node;
}

const $ = (id) => document.getElementById(id);

/** 1,234 or 56.7k. */
function count(value) {
  return value >= 1e6 ? `${(value / 1e6).toFixed(1)}M` : value >= 1e4 ? `${(value / 1e3).toFixed(1)}k` : value.toLocaleString("en");
}

/** 0.8 s, 12 s, 3.4 min. */
function duration(seconds) {
  if (seconds >= 120) return `${(seconds / 60).toFixed(1)} min`;
  return seconds >= 10 ? `${seconds.toFixed(0)} s` : `${seconds.toFixed(1)} s`;
}

/** The text with every occurrence of `query` marked. */
function marked(text, query) {
  const shown = visible(text);
  if (!query) return [shown];
  const parts = [];
  const lower = shown.toLowerCase();
  let from = 0;
  // Lower case can change the length of a text (İ); its places are then of no use.
  for (let at = lower.length === shown.length ? lower.indexOf(query) : -1; at >= 0; at = lower.indexOf(query, from)) {
    parts.push(shown.slice(from, at), el("mark", {}, shown.slice(at, at + query.length)));
    from = at + query.length;
  }
  parts.push(shown.slice(from));
  return parts;
}
