// A chart of curves over steps, with uPlot: a line of means, and the area between the lowest and highest values where a
// point stands for several steps.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { drawn, isEmpty } from "./curve.js";
import { count, number } from "./format.js";
import { useWidth } from "./ui.js";
import { theme } from "./theme.js";

const height = 190;
const columnWidth = 3, mostColumns = 200; // a run's history has at least 256 points if it was thinned
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function short(v) {
  if (v === 0 || v === null) return "0";
  const a = Math.abs(v);
  if (a >= 1e6) return `${Number((v / 1e6).toPrecision(3))}M`;
  if (a >= 1e4) return `${Number((v / 1e3).toPrecision(3))}k`;
  return a < 1e-3 ? v.toExponential(0) : String(Number(v.toPrecision(4)));
}

// Each series has three columns of data: means, highest and lowest values.
const columnOf = (i) => 1 + 3 * i;
function linesOf(s) {
  const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
  return [{ label: s.label, stroke: colour(s.colour), width: s.width ?? 1.5, dash: s.dash, spanGaps: true, points: { show: s.curve.x.length < 3, size: 5, fill: colour(s.colour) } }, edge, edge];
}

function options(series, width, unit, [least, greatest], point) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const end = (limit) => ({ pad: 0.1, soft: 0, mode: 3, ...(limit === undefined ? {} : { hard: limit }) });
  return {
    width,
    height,
    legend: { show: false },
    cursor: { points: { size: (_, i) => (i % 3 === 1 ? 6 : 0) }, y: false, drag: { x: true, y: false } },
    hooks: { setCursor: [(u) => point(u.cursor.left < 0 ? null : u.cursor.idx)] },
    scales: { x: { time: false }, y: { range: { min: end(least), max: end(greatest) } } },
    axes: [{ ...axis, size: 28, values: (_, v) => v.map(short) }, { ...axis, size: 48, values: (_, v) => v.map((y) => short(y) + (unit ?? "")) }],
    series: [{}, ...series.flatMap(linesOf)],
    bands: series.map((s, i) => ({ series: [columnOf(i) + 1, columnOf(i) + 2], fill: `${colour(s.colour)}${series.length > 2 ? "20" : "40"}` })),
  };
}

function dataOf(series, width) {
  const columns = Math.max(20, Math.min(mostColumns, Math.floor(width / columnWidth)));
  const end = Math.max(...series.map((s) => s.curve.x.at(-1)));
  const curves = series.map((s) => drawn(s.curve, end, columns));
  return uPlot.join(curves.map((c) => [c.x, c.mean, c.high, c.low]));
}

export const CurvesNote = () => html`<p class="note">Where a point stands for several steps, a line shows their mean, and the area around it their lowest and highest values.</p>`;

const known = (v) => v !== null && v !== undefined;

// series: [{label, curve, colour: "--series-0", dash}]; limits: values beyond which the axis never goes, [least, greatest]
export function Chart({ title, series, unit, hint, limits = [] }) {
  const [ref, width] = useWidth();
  const place = useRef(null), plot = useRef(null);
  const [at, point] = useState(null); // index of the point below the cursor
  const shown = series.filter((s) => !isEmpty(s.curve));
  const shape = `${width} ${theme.shown()} ${shown.map((s) => `${s.label}${s.colour}${s.curve.x.length < 3}`).join()}`;
  const data = shown.length ? dataOf(shown, width) : null;
  useEffect(() => {
    if (!width || !data) return undefined;
    plot.current = new uPlot(options(shown, width, unit, limits, point), data, place.current);
    return () => {
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    if (plot.current) plot.current.setData(data);
  });
  const pointed = at !== null && plot.current?.data;
  const before = (column) => pointed[column]?.slice(0, at + 1).findLast(known);
  const valueOf = (s, i) => {
    if (!pointed) return html`<b>${number(s.curve.last)}</b>`;
    const [mean, high, low] = [0, 1, 2].map((k) => before(columnOf(i) + k));
    return html`<b>${number(mean)}</b>${low < high && html` <small>${number(low, 3)} to ${number(high, 3)}</small>`}`;
  };
  const words = shown.map((s) => `${s.label} ${number(s.curve.last)}`).join(", ");
  return html`<figure class="chart" ref=${ref}>
    <figcaption><h3>${title}</h3><span class="legend">${pointed && html`<span>step <b>${count(pointed[0][at])}</b></span>`}${shown.map((s, i) => html`<span key=${s.label}>
      <svg width="16" height="8" aria-hidden="true"><line x1="0" y1="4" x2="16" y2="4" stroke=${`var(${s.colour})`} stroke-width="2.5" stroke-dasharray=${s.dash?.join(" ")} /></svg>
      ${s.label} ${valueOf(s, i)}</span>`)}</span></figcaption>
    ${shown.length === 0 ? html`<p class="empty">${hint ?? "No points yet."}</p>` : html`<div class="plot" role="img" aria-label=${`${title} over steps; last: ${words}`} ref=${place}></div>`}
  </figure>`;
}
