// The nodes of a cluster: state, memory, links, and the commands that concern nodes.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { model } from "./feed.js";
import { bytes, count, currentJob, duration, isOver, natural, number } from "./format.js";
import { Button, Panel, Scroll, State, command, whyNot } from "./ui.js";

function gpuText(g) {
  if (g.failure) return `gpu:${g.number} ${g.failure}`;
  return `gpu:${g.number}${g.utilisation === undefined ? "" : ` ${Math.round(g.utilisation)} %`}${g.memory_used === undefined ? "" : `, ${bytes(g.memory_used)} of ${bytes(g.memory_total)}`}`;
}

function Nodes({ names, job, why }) {
  return html`<${Scroll} label="Nodes"><table class="list"><thead><tr><th>node</th><th>state</th><th>address</th><th class="n">memory</th><th class="n">sent</th><th class="n">received</th><th class="n">joins</th><th class="n">failures</th><th class="n">at risk</th><th>notes</th><th><span class="hidden">commands</span></th></tr></thead>
    <tbody>${names.map((name) => {
      const n = model.state.nodes[name];
      const notes = [n.note, n.unheard && `no report for ${duration(n.unheard)}`, ...(n.gpus ?? []).map(gpuText)].filter(Boolean).join("; ");
      return html`<tr key=${name}><th scope="row">${name}</th><td><${State} of=${n.state} /> <small>${n.since !== undefined && duration(n.since)}</small></td><td>${n.address ?? "–"}</td>
        <td class="n">${bytes(n.memory)}</td><td class="n">${bytes(n.tcp_out ?? 0)}</td><td class="n">${bytes(n.tcp_in ?? 0)}</td><td class="n">${count(n.lives ?? 0)}</td><td class="n">${count(n.failures ?? 0)}</td>
        <td class="n">${n.at_risk === undefined ? "–" : `${count(n.at_risk)} ${n.at_risk === 1 ? "step" : "steps"}`}</td><td class="wide">${notes}</td>
        <td class="commands"><${Button} line=${`drain ${name} ${job}`} why=${why || (n.drained ? "the job is off this node" : "")}>Drain<//><${Button} line=${`add-node ${name} ${job}`} why=${why || (n.off ? "" : "the job may use this node already")}>Add<//></td></tr>`;
    })}</tbody></table><//>`;
}

function Links({ names }) {
  const l = (from, to) => model.state.nodes[from].links[to];
  if (!names.some((a) => Object.keys(model.state.nodes[a].links).length)) return html`<p class="empty">There are no connections between nodes.</p>`;
  return html`<${Scroll} label="Links between nodes"><table class="list matrix"><caption class="hidden">Bytes sent from the node of a row to that of a column</caption><thead><tr><th>from \\ to</th>${names.map((b) => html`<th key=${b} class="n">${b}</th>`)}</tr></thead>
    <tbody>${names.map((a) => html`<tr key=${a}><th scope="row">${a}</th>${names.map((b) => {
      const x = l(a, b), rate = model.rates[`${a}>${b}`];
      return html`<td key=${b} class="n">${x ? html`${bytes(x.out)}<small>${x.by}${rate !== undefined && `, ${bytes(rate)}/s`}${x.why_not && html`<abbr title=${`no shared memory: ${x.why_not}`}>*</abbr>`}</small>${x.round_trip_us && html`<small>${x.round_trip_us >= 1000 ? `${number(x.round_trip_us / 1000, 3)} ms` : `${x.round_trip_us} µs`} there and back</small>`}` : a === b ? "" : "–"}</td>`;
    })}</tr>`)}</tbody></table><//>`;
}

function Move({ names, id, why }) {
  const job = model.state.jobs[id];
  const layers = (job?.layers ?? []).map((l) => l.name);
  const [layer, setLayer] = useState(""), [node, setNode] = useState("");
  const what = layer || layers[0], where = node || names[0];
  const refused = whyNot() || why;
  return html`<form class="line" onSubmit=${(e) => (e.preventDefault(), refused || command(`move ${what} ${where} ${id}`))}>
    <label>Layer <select value=${what} onChange=${(e) => setLayer(e.target.value)}>${layers.map((l) => html`<option key=${l}>${l}</option>`)}</select></label>
    <label>To node <select value=${where} onChange=${(e) => setNode(e.target.value)}>${names.map((n) => html`<option key=${n}>${n}</option>`)}</select></label>
    <button aria-disabled=${refused ? "true" : undefined} title=${refused}>Move</button></form>`;
}

// Only where faults can be injected: the server says so (about.may.inject).
const faults = { delay: "by", "slow-disk": "by", drop: "", stop: "", kill: "" };
function Inject({ names }) {
  const [fault, setFault] = useState("delay"), [node, setNode] = useState(""), [time, setTime] = useState("10s"), [by, setBy] = useState("50ms");
  const where = node || names[0], refused = whyNot("inject");
  const line = `inject ${fault} ${where}${faults[fault] ? ` by ${by}` : ""}${fault === "kill" ? "" : ` for ${time}`}`;
  return html`<${Panel} title="Inject a fault"><form class="line" onSubmit=${(e) => (e.preventDefault(), refused || command(line))}>
    <label>Fault <select value=${fault} onChange=${(e) => setFault(e.target.value)}>${Object.keys(faults).map((f) => html`<option key=${f}>${f}</option>`)}</select></label>
    <label>Node <select value=${where} onChange=${(e) => setNode(e.target.value)}>${names.map((n) => html`<option key=${n}>${n}</option>`)}</select></label>
    ${faults[fault] && html`<label>By <input value=${by} size="6" onInput=${(e) => setBy(e.target.value.trim())} /></label>`}
    ${fault !== "kill" && html`<label>For <input value=${time} size="6" onInput=${(e) => setTime(e.target.value.trim())} /></label>`}
    <button class="bad" aria-disabled=${refused ? "true" : undefined} title=${refused || line}>Inject</button></form>
    ${refused && html`<p class="why">Disabled: ${refused}.</p>`}<//>`;
}

// Of the node that serves the page. A warning in the last 30 days.
function Certificates() {
  const all = Object.entries(model.state.about.certificates ?? {});
  if (all.length === 0) return null;
  const day = 86400, now = Date.now() / 1000;
  return html`<${Panel} title=${`Certificates of ${model.state.about.node}`}><dl class="details">${all.map(([name, until]) => {
    const left = Math.floor((until - now) / day);
    return html`<div key=${name}><dt>${name}</dt><dd class=${left < 30 ? "late" : ""}>until ${new Date(until * 1000).toISOString().slice(0, 10)}, ${left < 0 ? "expired" : `${count(left)} days left`}</dd></div>`;
  })}</dl><//>`;
}

export function Cluster() {
  const names = Object.keys(model.state.nodes).sort(natural);
  const id = currentJob(model.state);
  const job = model.state.jobs[id];
  const why = !model.state.about.cluster ? "this is one process, not a cluster" : !job || isOver(job) ? "no job is running" : "";
  return html`<h1>Cluster</h1>
    <${Panel} title=${`Nodes: ${names.filter((n) => model.state.nodes[n].state === "up").length} of ${names.length} up`}><${Nodes} names=${names} job=${id ?? ""} why=${why} /><//>
    <div class="pair"><div><${Panel} title="Bytes between nodes"><${Links} names=${names} /><//><${Certificates} /></div>
    <div><${Panel} title=${`Move a layer${job ? ` of job ${id}` : ""}`}><${Move} names=${names} id=${id} why=${why} />${(whyNot() || why) && html`<p class="why">Disabled: ${whyNot() || why}.</p>`}<//>
    ${model.state.about.may.inject && html`<${Inject} names=${names} />`}</div></div>`;
}
