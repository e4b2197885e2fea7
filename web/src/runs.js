// Runs side by side: curves of several run folders, and a table of the settings that differ. The list of runs has pages; runs
// stay chosen on other pages of the list, and when another view is shown.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Chart, CurvesNote } from "./chart.js";
import { curveOf } from "./curve.js";
import { getRun, getRuns } from "./feed.js";
import { count, duration, number, percent } from "./format.js";
import { Panel, Scroll, State } from "./ui.js";

const most = 6, pageSize = 50;
const kept = { names: null, offset: 0 }; // names null: not chosen yet, the newest two are shown

// {runs, total} from `offset` on; the former one until it has come.
function useRuns(offset) {
  const [list, setList] = useState(null), [error, setError] = useState("");
  useEffect(() => {
    let wanted = true;
    getRuns(offset, pageSize).then((l) => wanted && (setList({ ...l, offset }), setError("")), (e) => wanted && setError(e.message));
    return () => (wanted = false);
  }, [offset]);
  return [list, error];
}
function useChosen(names) {
  const [runs, setRuns] = useState({});
  useEffect(() => {
    for (const name of names)
      if (!runs[name]) getRun(name).then((r) => setRuns((old) => ({ ...old, [name]: { ...r, curves: Object.fromEntries(Object.entries(r.curves).map(([key, c]) => [key, curveOf(c)])) } })), () => {});
  }, [names.join()]);
  return names.map((n) => runs[n]).filter(Boolean);
}

const Colour = ({ at }) => html`<svg width="14" height="10" aria-hidden="true"><rect y="3" width="12" height="4" fill=${`var(--series-${at})`} /></svg>`;

// The runs that are compared, on whatever page of the list they are.
function Chosen({ names, toggle }) {
  if (names.length === 0) return html`<p class="empty">Choose runs below.</p>`;
  return html`<ul class="chosen">${names.map((n, at) => html`<li key=${n}><${Colour} at=${at} />${n}<button class="plain" aria-label=${`do not compare ${n}`} onClick=${() => toggle(n)}>✕</button></li>`)}</ul>`;
}

function Pages({ list, go }) {
  if (list.total <= pageSize) return null;
  const last = Math.min(list.offset + pageSize, list.total);
  const step = (label, offset, possible) => html`<button disabled=${!possible} onClick=${() => go(offset)}>${label}</button>`;
  return html`<nav class="buttons pages" aria-label="Pages of the list">${step("Newest", 0, list.offset > 0)}${step("Newer", Math.max(0, list.offset - pageSize), list.offset > 0)}
    <span>${count(list.offset + 1)} to ${count(last)} of ${count(list.total)}</span>${step("Older", list.offset + pageSize, last < list.total)}${step("Oldest", Math.floor((list.total - 1) / pageSize) * pageSize, last < list.total)}</nav>`;
}

function List({ list, names, toggle }) {
  return html`<${Scroll} label="Runs"><table class="list"><thead><tr><th><span class="hidden">compare</span></th><th>run</th><th>state</th><th class="n">steps</th><th class="n">loss</th><th class="n">best accuracy</th><th class="n">time</th><th>mode</th><th>started</th></tr></thead>
    <tbody>${list.map((r) => {
      const at = names.indexOf(r.folder), full = at < 0 && names.length >= most;
      return html`<tr key=${r.folder}><td><input type="checkbox" aria-label=${`compare ${r.folder}`} checked=${at >= 0} disabled=${full} title=${full ? `at most ${most} runs` : ""} onChange=${() => toggle(r.folder)} /></td>
        <th scope="row">${at >= 0 && html`<${Colour} at=${at} />`} ${r.folder}</th><td><${State} of=${r.state} /></td><td class="n">${count(r.steps)}</td><td class="n">${number(r.loss)}</td>
        <td class="n">${r.best_accuracy >= 0 ? percent(r.best_accuracy) : "–"}</td><td class="n">${duration(r.seconds)}</td><td>${r.mode}</td><td>${(r.started ?? "").replace("T", " ").replace("Z", "")}</td></tr>`;
    })}</tbody></table><//>`;
}

function Differences({ runs }) {
  const keys = [...new Set(runs.flatMap((r) => Object.keys(r.keys)))].sort().filter((k) => new Set(runs.map((r) => r.keys[k])).size > 1);
  if (runs.length < 2) return html`<p class="empty">Choose at least two runs.</p>`;
  if (keys.length === 0) return html`<p class="empty">The job files are equal.</p>`;
  return html`<${Scroll} label="Settings that differ"><table class="list"><thead><tr><th>setting</th>${runs.map((r) => html`<th key=${r.run.folder}>${r.run.folder}</th>`)}</tr></thead>
    <tbody>${keys.map((k) => html`<tr key=${k}><th scope="row"><code>${k}</code></th>${runs.map((r) => html`<td key=${r.run.folder}>${r.keys[k] ?? "–"}</td>`)}</tr>`)}</tbody></table><//>`;
}

const charts = [["loss", "Loss", []], ["test_loss", "Test loss", []], ["accuracy", "Accuracy", [0, 1]], ["examples_per_s", "Examples per second", [0]]];

export function Runs() {
  const [offset, setOffset] = useState(kept.offset), [names, setNames] = useState(kept.names);
  const [list, error] = useRuns(offset);
  const chosen = names ?? (list?.offset === 0 ? list.runs.slice(0, 2).map((r) => r.folder) : []);
  const runs = useChosen(chosen);
  const toggle = (name) => setNames((kept.names = chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name]));
  const go = (to) => {
    kept.names = chosen;
    setNames(chosen);
    setOffset((kept.offset = to));
  };
  const curves = (metric) => runs.filter((r) => r.curves[metric]).map((r) => ({ label: r.run.folder, curve: r.curves[metric], colour: `--series-${chosen.indexOf(r.run.folder)}` }));
  if (error) return html`<h1>Compare runs</h1><p class="lost">${error}</p>`;
  if (!list) return html`<h1>Compare runs</h1><p class="empty">Reading the runs…</p>`;
  if (list.total === 0) return html`<h1>Compare runs</h1><p class="empty">There are no runs in this folder yet.</p>`;
  return html`<h1>Compare runs</h1>
    <${Panel} title=${`Compared: ${chosen.length} of ${count(list.total)} runs, at most ${most}`}><${Chosen} names=${chosen} toggle=${toggle} /><//>
    <${Panel} title="Curves" class="charts">
      ${charts.map(([m, title, limits]) => html`<${Chart} key=${m} title=${title} limits=${limits} series=${curves(m)} />`)}<${CurvesNote} /><//>
    <${Panel} title="Settings that differ"><${Differences} runs=${runs} /><//>
    <${Panel} title="Runs" actions=${html`<${Pages} list=${list} go=${go} />`}><${List} list=${list.runs} names=${chosen} toggle=${toggle} /><//>`;
}
