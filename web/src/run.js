// A job: curves, values, controls, and where its time and bytes go.
import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Chart, CurvesNote } from "./chart.js";
import { ask, curvesOf, loadHistory, model } from "./feed.js";
import { bytes, count, currentJob, duration, isOver, natural, number, percent, place } from "./format.js";
import { Bars, Button, Panel, State, Tile, command, whyNot } from "./ui.js";

function Values({ job }) {
  const ratio = job.last_step ? Math.min(1, job.step / job.last_step) : 0;
  const evaluated = job.accuracy !== undefined && `step ${count(job.eval_step)}`;
  return html`<div class="progress">
      <progress max="1" value=${ratio} aria-label="Progress of the job">${percent(ratio)}</progress>
      <p><b class="big">${count(job.step)}</b>${job.last_step && ` of ${count(job.last_step)} steps`}${job.left !== undefined && `, about ${duration(job.left)} left`}</p></div>
    <dl class="tiles">
      <${Tile} label="loss">${number(job.loss)}<//>
      <${Tile} label="accuracy" note=${evaluated}>${percent(job.accuracy)}<//>
      <${Tile} label="examples/s">${count(job.examples_per_s)}<//>
      <${Tile} label="learning rate">${number(job.lr)}<//>
      <${Tile} label="epoch">${number(job.epoch)}<//>
      <${Tile} label="mode" note=${job.workers && `${job.workers} ${job.workers === 1 ? "worker" : "workers"}, batch ${job.batch}`}>${job.mode ?? "–"}<//>
      <${Tile} label="checkpoint" note=${job.checkpoint_age !== undefined && `${duration(job.checkpoint_age)} ago`}>${job.checkpoint === undefined ? "–" : `step ${count(job.checkpoint)}`}<//>
      <${Tile} label="steps at risk" note="if a node fails">${count(job.at_risk)}<//>
    </dl>`;
}

// What `set` changes: the rate of a step is the base rate, times the factor of the schedule.
function meaningOf(key, value, job) {
  if (key === "train.dynamics.decay") return "Sets the weight decay; a layer's decay_scale multiplies it.";
  const s = job.settings[key], applied = s && !(s.from >= job.step);
  const base = applied ? s.value : s?.before;
  if (!s || !(base > 0) || job.lr === undefined) return "Sets the base learning rate; a schedule multiplies it.";
  const factor = job.lr / base, next = Number(value);
  const then = value && next >= 0 ? ` ${number(next)} gives a rate of ${number(next * factor)} at this step.` : "";
  return `Sets the base learning rate, now ${number(s.value)}; a schedule multiplies it, at this step by ${number(factor)}.${then}`;
}

function SetValue({ id, job, why }) {
  const [key, setKey] = useState("train.dynamics.lr");
  const [value, setValue] = useState("");
  const keys = ["train.dynamics.lr", "train.dynamics.decay"];
  const refused = whyNot() || why;
  const send = (e) => {
    e.preventDefault();
    if (!refused && value) command(`set ${key} ${value} ${id}`).then((r) => r.how === "ok" && setValue(""));
  };
  return html`<form class="line" onSubmit=${send}>
    <label>Setting <select value=${key} onChange=${(e) => setKey(e.target.value)}>${keys.map((k) => html`<option key=${k}>${k}</option>`)}</select></label>
    <label>Value <input value=${value} onInput=${(e) => setValue(e.target.value.trim())} inputmode="decimal" size="8" placeholder=${number(job.settings[key]?.value)} autocomplete="off" /></label>
    <button aria-disabled=${refused ? "true" : undefined} title=${refused}>Set</button></form>
    <p class="note">${meaningOf(key, value, job)}</p>`;
}

function SwitchMode({ id, job, why }) {
  const now = job.mode?.split(" ")[0];
  const [picked, setMode] = useState("");
  const mode = picked || now;
  const [options, setOptions] = useState("");
  const chosen = job.modes?.find((m) => m.name === mode);
  const refused = whyNot() || why;
  const send = (e) => {
    e.preventDefault();
    if (!refused && mode) command(`mode ${mode} ${options} ${id}`.replace(/ +/g, " "));
  };
  return html`<form class="line" onSubmit=${send}>
    <label>Mode <select value=${mode} onChange=${(e) => setMode(e.target.value)}>${(job.modes ?? []).map((m) => html`<option key=${m.name}>${m.name}</option>`)}</select></label>
    <label>Options <input value=${options} onInput=${(e) => setOptions(e.target.value)} size="16" autocomplete="off" placeholder=${chosen?.options.map((o) => `${o}=`).join(" ") || "none"} /></label>
    <button aria-disabled=${refused ? "true" : undefined} title=${refused}>Switch</button></form>`;
}

function Controls({ id, job }) {
  const over = isOver(job) ? `job ${id} is over` : "";
  const running = over || (job.state === "queued" ? `job ${id} is queued` : "");
  const paused = job.state === "paused";
  const role = whyNot();
  return html`<${Panel} title="Controls" class="controls">
    <div class="buttons">
      <${Button} class="main" line=${`${paused ? "resume" : "pause"} ${id}`} why=${running}>${paused ? "Resume" : "Pause"}<//>
      <${Button} line=${`checkpoint ${id}`} why=${running}>Checkpoint<//>
      <${Button} line=${`eval ${id}`} why=${running || (job.evaluates === false ? "the job has no test data" : "")}>Evaluate<//>
      <${Button} class="bad" line=${`stop ${id}`} why=${over} confirm="Really stop?">Stop<//>
      <${Button} class="bad" line=${`kill ${id}`} why=${over} confirm="Really kill?">Kill<//>
    </div>
    <${SetValue} id=${id} job=${job} why=${running} />
    <${SwitchMode} key=${`mode${id}`} id=${id} job=${job} why=${running} />
    ${(role || running) && html`<p class="why">Controls are disabled: ${role || running}.</p>`}
    ${Object.entries(job.settings).filter(([, s]) => s.from !== undefined).map(([key, s]) => html`<p class="note" key=${key}><code>${key}</code> ${s.before !== undefined && `${number(s.before)} → `}${number(s.value)} from step ${count(s.from)}</p>`)}
  <//>`;
}

// Seconds that the roles have computed, by layer, loader, shard, ...
function timeByPart(id, job) {
  const order = new Map((job.layers ?? []).map((l, i) => [l.name, i]));
  const sums = {};
  for (const r of Object.values(model.state.roles)) {
    if ((model.state.about.cluster && r.job !== Number(id)) || !r.busy) continue;
    const p = place(r.name);
    const label = p.kind === "stage" ? p.label : p.kind === "shard" || p.kind === "replica" ? "updates" : p.kind === "worker" ? "sums of gradients" : p.kind === "loader" ? "reading data" : p.kind;
    sums[label] = (sums[label] ?? 0) + r.busy;
  }
  const rank = (label) => order.get(label.split(/[+.]/)[0]) ?? (label === "reading data" ? -1 : 1000);
  const all = Object.values(sums).reduce((a, b) => a + b, 0);
  return Object.entries(sums).sort(([a], [b]) => rank(a) - rank(b) || natural(a, b)).map(([label, value]) => ({ label, value, text: `${((100 * value) / all).toFixed(0)} %` }));
}

function linkRows() {
  const rows = [];
  for (const [name, n] of Object.entries(model.state.nodes))
    for (const [peer, l] of Object.entries(n.links)) {
      const rate = model.rates[`${name}>${peer}`];
      rows.push({ label: `${name}\u00a0→\u00a0${peer}`, value: l.out, text: html`${bytes(l.out)}${rate !== undefined && `, ${bytes(rate)}/s`} <small>${l.by}</small>` });
    }
  return rows;
}

// Roles and links that were named as slower than their peers, the newest first.
function Stragglers({ list }) {
  return html`<ul class="stragglers">${[...list].reverse().map((s) => html`<li key=${s.role + s.node}><b>${s.role}</b>${s.node && ` at ${s.node}`} costs <b>${number(s.costs_ms)} ms</b> a step: its peers take ${number(s.peers_ms)} ms <small>step ${count(s.step)}</small></li>`)}</ul>`;
}

// Reads of weights by age, over all parameters. Asked for every few seconds while the job runs.
function useStaleness(id, active) {
  const [rows, setRows] = useState([]);
  useEffect(() => {
    let stopped = false, timer = 0;
    const look = async () => {
      const r = model.link === "live" && active && !document.hidden ? await ask(`staleness ${id}`, { json: true }) : { how: "" };
      if (stopped) return;
      if (r.how === "ok") {
        const sums = {};
        for (const reads of Object.values(JSON.parse(r.text).parameters ?? {})) for (const age in reads) sums[age] = (sums[age] ?? 0) + reads[age];
        const all = Object.values(sums).reduce((a, b) => a + b, 0);
        setRows(Object.keys(sums).sort(natural).map((age) => ({ label: age === "1" ? "1 clock" : `${age} clocks`, value: sums[age], text: `${((100 * sums[age]) / all).toFixed(1)} %` })));
      }
      timer = setTimeout(look, 10000);
    };
    look();
    return () => ((stopped = true), clearTimeout(timer));
  }, [id, active]);
  return rows;
}

export function Events({ job }) {
  const list = model.log.filter((e) => job === undefined || e.job === Number(job)).slice(0, 40);
  if (list.length === 0) return html`<p class="empty">No events yet.</p>`;
  const words = (e) => e.message ?? (e.event === "eval" || e.event === "best" ? `accuracy ${percent(e.accuracy)}, loss ${number(e.loss)}` : e.file ?? "");
  return html`<ol class="events" tabindex="0" aria-label="Events of the job">${list.map((e) => html`<li key=${e.n} class=${e.event}><span class="step">${count(e.step)}</span><b>${e.event}</b> <span>${words(e)}</span></li>`)}</ol>`;
}

export function Run({ argument }) {
  const id = argument && model.state.jobs[argument] ? argument : String(currentJob(model.state) ?? "");
  const job = model.state.jobs[id];
  const active = job !== undefined && (job.state === "running" || job.state === "paused");
  const staleness = useStaleness(id, active && job.state === "running");
  const c = curvesOf(id);
  useEffect(() => void (job && loadHistory(id, job.folder)), [id, job?.folder, c]);
  if (!job) return html`<h1>Run</h1><p class="empty">There are no jobs. Submit one with <code>troupe train JOB --cluster FILE</code>.</p>`;
  const ids = Object.keys(model.state.jobs).sort((a, b) => b - a);
  return html`<div class="title"><h1>${job.name}</h1><${State} of=${job.state} />
      <label>Job <select value=${id} onChange=${(e) => (location.hash = `#/run/${e.target.value}`)}>${ids.map((i) => html`<option key=${i} value=${i}>${i} ${model.state.jobs[i].name}</option>`)}</select></label></div>
    ${job.message && html`<p class=${job.state === "failed" ? "lost" : "note"}>${job.message}</p>`}
    <div class="run">
      <div class="column">
        <${Panel} title="Progress"><${Values} job=${job} /><//>
        <${Panel} title="Curves" class="charts">
          <${Chart} title="Loss" series=${[{ label: "training", curve: c.loss, colour: "--series-0" }, { label: "test", curve: c.testLoss, colour: "--series-1", dash: [6, 3], width: 2 }]} />
          <${Chart} title="Accuracy" hint="No evaluation yet." limits=${[0, 1]} series=${[{ label: "test", curve: c.accuracy, colour: "--series-2" }]} />
          <${Chart} title="Examples per second" limits=${[0]} series=${[{ label: "training", curve: c.rate, colour: "--series-3" }]} />
          <${Chart} title="Learning rate" limits=${[0]} series=${[{ label: "rate", curve: c.lr, colour: "--series-4" }]} />
          <${CurvesNote} />
        <//>
        <${Panel} title="Events"><${Events} job=${id} /><//>
      </div>
      <div class="column side">
        <${Controls} id=${id} job=${job} />
        ${job.stragglers && html`<${Panel} title="Stragglers"><${Stragglers} list=${job.stragglers} /><//>`}
        <${Panel} title="Time by layer"><${Bars} label="Share of the computing time by layer" rows=${timeByPart(id, job)} /><//>
        <${Panel} title="Age of the weights used"><${Bars} label="Reads of weights by age in clocks" rows=${staleness} colour="var(--series-3)" /><//>
        <${Panel} title="Bytes by link"><${Bars} label="Bytes sent by link" rows=${linkRows()} colour="var(--series-2)" /><//>
      </div>
    </div>`;
}
