// Runs side by side: curves of several run folders, and a table of the settings that differ.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Chart } from "./chart.js";
import { getRun, getRuns } from "./feed.js";
import { count, duration, number, percent } from "./format.js";
import { Panel, Scroll, State } from "./ui.js";

const most = 6;

function useRuns() {
  const [list, setList] = useState(null), [error, setError] = useState("");
  useEffect(() => void getRuns().then(setList, (e) => setError(e.message)), []);
  return [list, error];
}
function useChosen(names) {
  const [runs, setRuns] = useState({});
  useEffect(() => {
    for (const name of names) if (!runs[name]) getRun(name).then((r) => setRuns((old) => ({ ...old, [name]: r })), () => {});
  }, [names.join()]);
  return names.map((n) => runs[n]).filter(Boolean);
}

function List({ list, names, toggle }) {
  return html`<${Scroll} label="Runs"><table class="list"><thead><tr><th><span class="hidden">compare</span></th><th>run</th><th>state</th><th class="n">steps</th><th class="n">loss</th><th class="n">best accuracy</th><th class="n">time</th><th>mode</th><th>started</th></tr></thead>
    <tbody>${list.map((r) => {
      const at = names.indexOf(r.folder), full = at < 0 && names.length >= most;
      return html`<tr key=${r.folder}><td><input type="checkbox" aria-label=${`compare ${r.folder}`} checked=${at >= 0} disabled=${full} title=${full ? `at most ${most} runs` : ""} onChange=${() => toggle(r.folder)} /></td>
        <th scope="row">${at >= 0 && html`<svg width="14" height="10" aria-hidden="true"><rect y="3" width="12" height="4" fill=${`var(--series-${at})`} /></svg>`} ${r.folder}</th><td><${State} of=${r.state} /></td><td class="n">${count(r.steps)}</td><td class="n">${number(r.loss)}</td>
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

export function Runs() {
  const [list, error] = useRuns();
  const [names, setNames] = useState([]);
  const chosen = names.length || !list ? names : list.slice(0, 2).map((r) => r.folder);
  const runs = useChosen(chosen);
  const toggle = (name) => setNames(chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name]);
  const curves = (metric) => runs.filter((r) => r.curves[metric]).map((r) => ({ label: r.run.folder, x: r.curves[metric][0], y: r.curves[metric][1], colour: `--series-${chosen.indexOf(r.run.folder)}` }));
  if (error) return html`<h1>Compare runs</h1><p class="lost">${error}</p>`;
  if (!list) return html`<h1>Compare runs</h1><p class="empty">Reading the runs…</p>`;
  if (list.length === 0) return html`<h1>Compare runs</h1><p class="empty">There are no runs in this folder yet.</p>`;
  return html`<h1>Compare runs</h1>
    <${Panel} title=${`Curves of ${runs.length} of ${list.length} runs`} class="charts">
      ${[["loss", "Loss"], ["test_loss", "Test loss"], ["accuracy", "Accuracy"], ["examples_per_s", "Examples per second"]].map(([m, title]) => html`<${Chart} key=${m} title=${title} series=${curves(m)} />`)}<//>
    <${Panel} title="Settings that differ"><${Differences} runs=${runs} /><//>
    <${Panel} title="Runs"><${List} list=${list} names=${chosen} toggle=${toggle} /><//>`;
}
