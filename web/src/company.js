// The roles of a job on their nodes, as a live graph: who computes, who waits for whom, and the root
// of a stall. The layout is a table: nodes side by side, in each the groups of its roles below each
// other, so that nothing moves while the job runs.
import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { model } from "./feed.js";
import { count, duration, natural, number, place } from "./format.js";
import { Panel, useWidth } from "./ui.js";

const row = 24, head = 22, gap = 10, pad = 10, top = 34, least = 236, most = 380, between = 48, inner = 40;
const kinds = ["coordinator", "loader", "stage", "reducer", "worker", "shard", "replica", "data", "tester"];

// Layers in the order of the job.
function stageOrder() {
  const order = {};
  for (const j of Object.values(model.state.jobs)) (j.layers ?? []).forEach((l, i) => (order[l.name] = i));
  return (label) => order[label.split(/[+.]/)[0]] ?? 1000;
}

function groupsOf(node) {
  const rank = stageOrder(), groups = {};
  for (const [id, r] of Object.entries(model.state.roles)) {
    if (r.node !== node) continue;
    const p = place(r.name);
    (groups[p.group] ??= []).push({ id, role: r, ...p });
  }
  const kind = (c) => (kinds.indexOf(c.kind) + 100) % 100;
  for (const g of Object.values(groups)) g.sort((a, b) => kind(a) - kind(b) || rank(a.label) - rank(b.label) || natural(a.label, b.label));
  const first = (name) => (name === "job" ? 0 : name === "parameters" ? 2 : 1);
  return Object.entries(groups).sort(([a], [b]) => first(a) - first(b) || natural(a, b));
}

// Places of nodes, groups and roles. Nodes fill columns, and so do the groups in a wide node; the next
// one goes to the column that is shortest so far.
function layout(width) {
  const names = Object.keys(model.state.nodes).sort(natural);
  const columns = Math.max(1, Math.min(names.length, Math.floor((width + between) / (least + between))));
  const each = (width - (columns - 1) * between) / columns;
  const parts = Math.max(1, Math.floor((each - 2 * pad + inner) / (least + inner)));
  const wide = Math.min(each, parts * most + (parts - 1) * inner + 2 * pad), part = (wide - 2 * pad - (parts - 1) * inner) / parts;
  const bottoms = Array(columns).fill(2), cells = {}, boxes = [];
  for (const name of names) {
    const column = bottoms.indexOf(Math.min(...bottoms));
    const box = { name, x: 2 + column * (wide + between), y: bottoms[column], width: wide, groups: [] };
    const ends = Array(parts).fill(box.y + top);
    for (const [group, list] of groupsOf(name)) {
      const at = ends.indexOf(Math.min(...ends)), x = box.x + pad + at * (part + inner);
      box.groups.push({ name: group, x, y: ends[at] + 14 });
      ends[at] += head;
      for (const cell of list) {
        cells[cell.id] = { ...cell, x, y: ends[at], width: part, height: row - 3 };
        ends[at] += row;
      }
      ends[at] += gap;
    }
    box.height = Math.max(...ends, box.y + top + 14) - box.y;
    bottoms[column] = box.y + box.height + 24;
    boxes.push(box);
  }
  return { boxes, cells, width, height: Math.max(...bottoms, 0) };
}

function condition(role) {
  if (role.task) return { is: "busy", text: role.task.kind };
  if (role.waits === "user") return { is: "held", text: "paused" };
  if (role.waits) return { is: "waits", text: role.waits };
  return { is: "rests", text: "" };
}
const inWords = (r) =>
  r.task ? `computes ${r.task.kind}${r.task.packet === undefined ? "" : ` of packet ${r.task.packet}`} of step ${r.task.step}` : r.waits_for ? `waits for ${r.waits_for}` : "has nothing to do";

function Role({ cell, chosen, root, onChoose }) {
  const { role: r, x, y, width, height } = cell;
  const c = condition(r);
  const dots = Math.min(r.in_flight ?? 0, 6), queued = r.queued ?? 0;
  const room = Math.max(6, Math.floor((width - 120) / 6.6));
  const label = cell.label.length > room ? `${cell.label.slice(0, room - 1)}…` : cell.label;
  const key = (e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), onChoose(cell.id));
  return html`<g class=${`role ${c.is} ${root ? "root" : ""} ${chosen ? "chosen" : ""}`} transform=${`translate(${x} ${y})`} tabindex="0" role="button"
    aria-pressed=${chosen ? "true" : "false"} aria-label=${`${r.name}: ${inWords(r)}${root ? "; it holds up others" : ""}`} onClick=${() => onChoose(cell.id)} onKeyDown=${key}>
    <title>${`${r.name}: ${inWords(r)}`}</title>
    <rect class="cell" width=${width} height=${height} rx="3" /><rect class="tag" width="5" height=${height} rx="1.5" />
    <text class="name" x="11" y="15">${label}</text>
    <text class="doing" x=${width - 52} y="15" text-anchor="end">${c.text}</text>
    ${Array.from({ length: dots }, (_, i) => html`<circle key=${i} class="packet" cx=${width - 45 + 7 * (i % 3)} cy=${dots > 3 ? 6.5 + 8 * Math.floor(i / 3) : 10.5} r="2.6" />`)}
    ${queued > 0 && html`<text class="queue" x=${width - 5} y="15" text-anchor="end">${queued}</text>`}
  </g>`;
}

// A curve from the role that waits to the one that it waits for. Within a column it bulges to the
// right, into the space between the columns.
function path(a, b) {
  const y1 = a.y + a.height / 2, y2 = b.y + b.height / 2;
  if (Math.abs(a.x - b.x) < 1) {
    const x = a.x + a.width, bulge = Math.min(40, 14 + Math.abs(y2 - y1) / 8);
    return `M${x} ${y1}C${x + bulge} ${y1} ${x + bulge} ${y2} ${x} ${y2}`;
  }
  const right = b.x > a.x, x1 = right ? a.x + a.width : a.x, x2 = right ? b.x : b.x + b.width, bend = (right ? 1 : -1) * 34;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

function Edges({ cells, chain, chosen, all }) {
  const lines = [];
  for (const [from, to] of Object.entries(model.state.edges))
    for (const t of to) {
      const a = cells[from], b = cells[t], onChain = chain.has(`${from}>${t}`), mine = chosen && (from === chosen || t === chosen);
      if (!a || !b || !(all || onChain || mine)) continue;
      lines.push({ key: `${from}>${t}`, d: path(a, b), kind: onChain ? "chain" : mine ? "mine" : "", order: onChain ? 2 : mine ? 1 : 0 });
    }
  lines.sort((a, b) => a.order - b.order);
  return html`<g class="edges" aria-hidden="true">${lines.map((l) => html`<path key=${l.key} class=${l.kind} d=${l.d} marker-end=${l.kind === "chain" ? "url(#arrow-chain)" : "url(#arrow)"} />`)}</g>`;
}

function rootText(root) {
  const r = model.state.roles[root.role];
  const who = root.cause === "silent" ? `node ${root.nodes[0]}` : `${r?.name ?? root.role} on ${r?.node ?? "?"}`;
  const link = root.cause === "connection" ? `the connection between ${root.nodes[0]} and ${root.nodes[1]}: ` : "";
  const n = root.held_up.length;
  return `${link}${who} ${root.text}; ${n} ${n === 1 ? "role waits" : "roles wait"} for it`;
}

function Roots({ onChoose }) {
  const roots = model.state.roots.slice(0, 3);
  if (roots.length === 0) return html`<p class="roots calm">No role holds up others.</p>`;
  return html`<ol class="roots">${roots.map((root, i) => html`<li key=${root.role} class=${i === 0 && (root.age ?? 0) >= 1 ? "worst" : ""}><button class="plain" onClick=${() => onChoose(root.role)}>${rootText(root)}</button></li>`)}</ol>`;
}

function Details({ id }) {
  const r = model.state.roles[id];
  if (!r) return html`<p class="empty">Choose a role for its queue, credit and times.</p>`;
  const rows = [["node", r.node], ["job", r.job], ["now", inWords(r)], ["for", r.age === undefined ? "less than 1 s" : duration(r.age)], ["step", count(r.step ?? 0)], ["version of weights", count(r.version ?? 0)],
    ["packets in flight", r.in_flight ?? 0], ["messages queued", r.queued ?? 0], ["credit", r.credit ?? 0], ["messages handled", count(r.messages ?? 0)], ["computing", `${number(r.busy ?? 0)} s`], ["rejected messages", r.mistakes ?? 0]];
  return html`<h3>${r.name}</h3><dl class="details">${rows.map(([k, v]) => html`<div key=${k}><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>`;
}

function Legend() {
  const mark = (kind) => html`<svg width="12" height="14" aria-hidden="true"><g class=${`role ${kind}`}><rect class="tag" width="6" height="14" rx="1.5" /></g></svg>`;
  return html`<p class="legend"><span>${mark("busy")}computes</span><span>${mark("waits")}waits</span><span>${mark("held")}paused</span><span>${mark("rests")}rests</span>
    <span><svg width="8" height="10" aria-hidden="true"><circle class="packet" cx="4" cy="6" r="3" /></svg>packet in flight</span><span><b>3</b> messages queued</span></p>`;
}

export function Company() {
  const [ref, width] = useWidth();
  const [chosen, choose] = useState(null);
  const [all, setAll] = useState(true);
  const { boxes, cells, height } = layout(Math.max(width - 44, 200));
  const worst = model.state.roots[0];
  const chain = new Set((worst?.chain ?? []).slice(0, -1).map((id, i) => `${id}>${worst.chain[i + 1]}`));
  const alarmed = worst && (worst.age ?? 0) >= 1;
  const silent = worst?.cause === "silent" ? worst.nodes[0] : "";
  return html`<h1>Company</h1>
    <${Roots} onChoose=${choose} />
    <div class="company">
      <section class="panel graph"><header><${Legend} /><label class="check"><input type="checkbox" checked=${all} onChange=${(e) => setAll(e.target.checked)} /> all waits</label></header>
        <div ref=${ref}><svg class=${alarmed ? "alarmed" : ""} width=${width} height=${height} role="group" aria-label="Roles on their nodes">
          <defs>${["", "-chain"].map((k) => html`<marker key=${k} id=${`arrow${k}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class=${`head${k}`} d="M0 0L8 4L0 8z" /></marker>`)}</defs>
          ${boxes.map((b) => html`<g key=${b.name} class=${`node ${model.state.nodes[b.name].state} ${silent === b.name ? "root" : ""}`}>
            <rect x=${b.x} y=${b.y} width=${b.width} height=${b.height} rx="6" /><text class="title" x=${b.x + pad} y=${b.y + 21}>${b.name}</text>
            <text class="note" x=${b.x + b.width - pad} y=${b.y + 21} text-anchor="end">${model.state.nodes[b.name].state}</text>
            ${b.groups.map((g) => html`<text key=${g.name} class="group" x=${g.x} y=${g.y}>${g.name}</text>`)}</g>`)}
          ${Object.values(cells).map((c) => html`<${Role} key=${c.id} cell=${c} chosen=${c.id === chosen} root=${worst && !silent && c.id === worst.role} onChoose=${(id) => choose(id === chosen ? null : id)} />`)}
          <${Edges} cells=${cells} chain=${chain} chosen=${chosen} all=${all} />
        </svg></div></section>
      <${Panel} title="Role"><${Details} id=${chosen} /><//>
    </div>`;
}
