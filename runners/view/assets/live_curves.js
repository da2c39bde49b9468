// Success against experience by arm, with Wilson intervals, drawn anew as episodes end.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}

/** A series' line and marker, for the legend. */
function swatch({ colour, marker, dashes }) {
  const line = shape("line", { x1: 0, x2: 34, y1: 6, y2: 6, class: "line-of", "stroke-dasharray": dashes });
  const mark = shape("svg", { x: 17, y: 6, class: "mark" }, shape("path", { d: marker, class: "point" }));
  return shape("svg", { width: 34, height: 12, class: `chart swatch ${colour}`, "aria-hidden": "true" }, line, mark);
}

/** Whole numbers of tasks from 0 to `last`, at most seven. */
function ticks(last) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((each) => last / each <= 6) ?? Math.ceil(last / 6);
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, place) => place * step);
}

/** `curves`: of each arm its name, look, and points of experience, successes, trials, and the ends of the interval. */
function drawCurves(curves) {
  const drawn = curves.filter(({ points }) => points.length);
  if (!drawn.length) {
    $("curves").replaceChildren(el("p", { class: "none" }, "No judged episode yet."));
    return;
  }
  const last = Math.max(...drawn.flatMap(({ points }) => points.map(([n]) => n)), 1);
  const [top, bottom] = [8, 190];
  const x = (n) => `${12 + (85 * n) / last}%`;
  const y = (rate) => bottom - (bottom - top) * rate;
  const parts = [];
  for (const rate of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(shape("line", { x1: x(0), x2: x(last), y1: y(rate), y2: y(rate), class: "grid" }));
    parts.push(shape("text", { x: "10.5%", y: y(rate) + 4, class: "tick end" }, `${100 * rate} %`));
  }
  for (const n of ticks(last)) parts.push(shape("text", { x: x(n), y: bottom + 18, class: "tick middle" }, `${n}`));
  parts.push(shape("text", { x: x(last / 2), y: bottom + 36, class: "tick middle" }, "tasks seen before"));
  for (const { arm, points, colour, marker, dashes } of drawn) {
    const group = shape("g", { class: colour });
    points.forEach(([n, solved, trials, low, high], at) => {
      const rate = solved / trials;
      if (at) {
        const [before, ok, all] = points[at - 1];
        group.append(shape("line", { x1: x(before), y1: y(ok / all), x2: x(n), y2: y(rate), class: "line-of", "stroke-dasharray": dashes }));
      }
      group.append(
        shape("line", { x1: x(n), x2: x(n), y1: y(low), y2: y(high), class: "whisker" }),
        shape("svg", { x: x(n), y: y(rate), class: "mark" },
          shape("path", { d: marker, class: "point" }, shape("title", {}, `${arm}, n = ${n.toFixed(1)}: ${solved}/${trials}`))),
      );
    });
    parts.push(group);
  }
  const legend = drawn.map((curve) => {
    const [solved, trials] = curve.points.reduce(([a, b], [, ok, all]) => [a + ok, b + all], [0, 0]);
    return el("li", {}, swatch(curve), `${curve.arm}: ${solved}/${trials}`);
  });
  const told = `Success at the first submission by tasks seen before, for ${drawn.map(({ arm }) => arm).join(", ")}`;
  const chart = shape("svg", { width: "100%", height: bottom + 44, role: "img", "aria-label": told, class: "chart curves" }, ...parts);
  $("curves").replaceChildren(chart, el("ul", { class: "legend" }, legend));
}
