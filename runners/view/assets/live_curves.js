// Success against experience by arm, with Wilson intervals, drawn anew as episodes end.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}

/** As in the report: with skills first, then without. */
function rank(arm) {
  return ["on", "off"].includes(arm) ? ["on", "off"].indexOf(arm) : 2;
}

/** `arms`: by name, points of experience, successes, trials, and the ends of the interval. */
function drawCurves(arms) {
  const named = Object.entries(arms).filter(([, points]) => points.length).sort(([a], [b]) => rank(a) - rank(b));
  if (!named.length) {
    $("curves").replaceChildren(el("p", { class: "none" }, "No judged episode yet."));
    return;
  }
  const last = Math.max(...named.flatMap(([, points]) => points.map(([n]) => n)), 1);
  const [top, bottom] = [8, 190];
  const x = (n) => `${9 + (88 * n) / last}%`;
  const y = (rate) => bottom - (bottom - top) * rate;
  const parts = [];
  for (const rate of [0, 0.5, 1]) {
    parts.push(shape("line", { x1: x(0), x2: x(last), y1: y(rate), y2: y(rate), class: "grid" }));
    parts.push(shape("text", { x: "7%", y: y(rate) + 4, class: "tick end" }, `${100 * rate}`));
  }
  for (const n of new Set([0, Math.round(last / 2), Math.round(last)])) parts.push(shape("text", { x: x(n), y: bottom + 18, class: "tick middle" }, `${n}`));
  named.forEach(([arm, points], place) => {
    const group = shape("g", { class: `s${place % 6}`, transform: `translate(${3 * (place - (named.length - 1) / 2)} 0)` });
    points.forEach(([n, solved, trials, low, high], at) => {
      const rate = solved / trials;
      if (at) {
        const [before, ok, all] = points[at - 1];
        group.append(shape("line", { x1: x(before), y1: y(ok / all), x2: x(n), y2: y(rate), class: "line-of" }));
      }
      group.append(
        shape("line", { x1: x(n), x2: x(n), y1: y(low), y2: y(high), class: "whisker" }),
        shape("circle", { cx: x(n), cy: y(rate), r: 4, class: "point" }, shape("title", {}, `${arm}, n = ${n.toFixed(1)}: ${solved}/${trials}`)),
      );
    });
    parts.push(group);
  });
  const legend = named.map(([arm, points], place) => {
    const [solved, trials] = points.reduce(([a, b], [, ok, all]) => [a + ok, b + all], [0, 0]);
    return el("li", {}, el("span", { class: `swatch s${place % 6}` }), `${arm}: ${solved}/${trials}`);
  });
  const chart = shape("svg", { width: "100%", height: bottom + 26, role: "img", "aria-label": `Success by tasks seen before, for ${named.map(([arm]) => arm).join(", ")}`, class: "chart curves" }, ...parts);
  $("curves").replaceChildren(chart, el("ul", { class: "legend" }, legend));
}
