// All jobs: those that run or wait, and those that are over.
import { html } from "htm/preact";
import { model } from "./feed.js";
import { count, duration, isOver, number, percent } from "./format.js";
import { Button, Panel, Scroll, State } from "./ui.js";

function Table({ ids, label }) {
  if (ids.length === 0) return html`<p class="empty">None.</p>`;
  return html`<${Scroll} label=${label}><table class="list"><thead><tr><th class="n">job</th><th>name</th><th>state</th><th class="n">step</th><th class="n">loss</th><th class="n">accuracy</th><th class="n">left</th><th>mode</th><th>owner</th><th>message</th><th><span class="hidden">commands</span></th></tr></thead>
    <tbody>${ids.map((id) => {
      const j = model.state.jobs[id];
      return html`<tr key=${id}><td class="n">${id}</td><th scope="row"><a href=${`#/run/${id}`}>${j.name}</a></th><td><${State} of=${j.state} /></td><td class="n">${count(j.step)}${j.last_step && html`<small> / ${count(j.last_step)}</small>`}</td>
        <td class="n">${number(j.loss)}</td><td class="n">${percent(j.accuracy)}</td><td class="n">${j.left === undefined ? "–" : duration(j.left)}</td><td>${j.mode ?? "–"}</td><td>${j.owner ?? "–"}</td><td class="wide">${j.message ?? ""}</td>
        <td class="commands">${!isOver(j) && html`<${Button} class="bad" line=${`stop ${id}`} confirm=${j.state === "queued" ? "Really remove?" : "Really stop?"}>${j.state === "queued" ? "Remove" : "Stop"}<//>`}</td></tr>`;
    })}</tbody></table><//>`;
}

export function Jobs() {
  const ids = Object.keys(model.state.jobs).sort((a, b) => a - b);
  const now = ids.filter((id) => !isOver(model.state.jobs[id])), over = ids.filter((id) => isOver(model.state.jobs[id])).reverse();
  return html`<h1>Jobs</h1><${Panel} title="Running and queued"><${Table} ids=${now} label="Running and queued jobs" /><//><${Panel} title="Over"><${Table} ids=${over} label="Jobs that are over" /><//>`;
}
