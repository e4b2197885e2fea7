// A chart of curves over steps, with uPlot.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { count, number } from "./format.js";
import { useWidth } from "./ui.js";
import { theme } from "./theme.js";

const height = 190;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function short(v) {
  if (v === 0 || v === null) return "0";
  const a = Math.abs(v);
  if (a >= 1e6) return `${Number((v / 1e6).toPrecision(3))}M`;
  if (a >= 1e4) return `${Number((v / 1e3).toPrecision(3))}k`;
  return a < 1e-3 ? v.toExponential(0) : String(Number(v.toPrecision(4)));
}

function options(series, width, unit, point) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { points: { size: 6 }, y: false, drag: { x: true, y: false } },
    hooks: { setCursor: [(u) => point(u.cursor.left < 0 ? null : u.cursor.idx)] },
    scales: { x: { time: false } },
    axes: [{ ...axis, size: 28, values: (_, v) => v.map(short) }, { ...axis, size: 48, values: (_, v) => v.map((y) => short(y) + (unit ?? "")) }],
    series: [{}, ...series.map((s) => ({ label: s.label, stroke: colour(s.colour), width: s.width ?? 1.5, dash: s.dash, spanGaps: true, points: { show: s.x.length < 3, size: 5, fill: colour(s.colour) } }))],
  };
}

const joined = (series) => uPlot.join(series.map((s) => [s.x, s.y]));
const known = (v) => v !== null && v !== undefined;
const last = (s) => s.y.findLast(known);

// series: [{label, x, y, colour: "--series-0", dash}]
export function Chart({ title, series, unit, hint }) {
  const [ref, width] = useWidth();
  const place = useRef(null), plot = useRef(null);
  const [at, point] = useState(null); // index of the point below the cursor
  const shown = series.filter((s) => s.x.length > 0);
  const shape = `${width} ${theme.shown()} ${shown.map((s) => `${s.label}${s.colour}${s.x.length < 3}`).join()}`;
  useEffect(() => {
    if (!width || shown.length === 0) return undefined;
    plot.current = new uPlot(options(shown, width, unit, point), joined(shown), place.current);
    return () => {
      plot.current.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    if (plot.current) plot.current.setData(joined(shown));
  });
  const data = at !== null && plot.current?.data;
  const value = (s, i) => (data ? data[i + 1]?.slice(0, at + 1).findLast(known) : last(s));
  const words = shown.map((s) => `${s.label} ${number(last(s))}`).join(", ");
  return html`<figure class="chart" ref=${ref}>
    <figcaption><h3>${title}</h3><span class="legend">${data && html`<span>step <b>${count(data[0][at])}</b></span>`}${shown.map((s, i) => html`<span key=${s.label}>
      <svg width="16" height="8" aria-hidden="true"><line x1="0" y1="4" x2="16" y2="4" stroke=${`var(${s.colour})`} stroke-width="2.5" stroke-dasharray=${s.dash?.join(" ")} /></svg>
      ${s.label} <b>${number(value(s, i))}</b></span>`)}</span></figcaption>
    ${shown.length === 0 ? html`<p class="empty">${hint ?? "No points yet."}</p>` : html`<div class="plot" role="img" aria-label=${`${title} over steps; last: ${words}`} ref=${place}></div>`}
  </figure>`;
}
