// The connection with the server, and what the page knows: the state, the curves and events of jobs.
// The messages are described in actors/page/feed.hpp.
import { addPoint, curveOf, joinedCurves, makeCurve } from "./curve.js";

export const model = {
  link: "connecting", // "live", "lost"
  state: null, // the server's state; null: not yet received
  curves: {}, // by job: {loss, rate, lr, accuracy, testLoss: curve.js, history: "" | "loading" | "loaded"}
  log: [], // events other than steps, the newest first
  rates: {}, // bytes per second of links, by "FROM>TO"
};

const maxLog = 300;
const listeners = new Set();
let due = false;

export function listen(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}
export function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    for (const f of [...listeners]) f();
  });
}

// RFC 7386. `to` and `patch` are objects.
export function merge(to, patch) {
  for (const key in patch) {
    const value = patch[key];
    if (value === null) delete to[key];
    else if (value && typeof value === "object" && !Array.isArray(value)) {
      const old = to[key];
      to[key] = merge(old && typeof old === "object" && !Array.isArray(old) ? old : {}, value);
    } else to[key] = value;
  }
  return to;
}

// --- curves

export function curvesOf(job) {
  return (model.curves[job] ??= { loss: makeCurve(), rate: makeCurve(), lr: makeCurve(), accuracy: makeCurve(), testLoss: makeCurve(), history: "" });
}

function note(e) {
  const c = curvesOf(e.job);
  if (e.event === "step") {
    addPoint(c.loss, e.step, e.loss);
    addPoint(c.rate, e.step, e.examples_per_s);
    addPoint(c.lr, e.step, e.lr);
    return;
  }
  if (e.event === "eval") {
    addPoint(c.accuracy, e.step, e.accuracy);
    addPoint(c.testLoss, e.step, e.loss);
  }
  model.log.unshift(e);
  if (model.log.length > maxLog) model.log.length = maxLog;
}

// Puts the points of metrics.csv before those that the events have given.
export async function loadHistory(job, folder) {
  const c = curvesOf(job);
  if (!folder || c.history) return;
  c.history = "loading";
  const run = await getRun(folder.split("/").pop()).catch(() => null);
  if (model.curves[job] !== c) return; // a new connection has begun
  c.history = run ? "loaded" : "";
  if (!run) return;
  const names = { loss: "loss", rate: "examples_per_s", lr: "lr", accuracy: "accuracy", testLoss: "test_loss" };
  for (const key in names) c[key] = joinedCurves(curveOf(run.curves[names[key]]), c[key]);
  changed();
}

// --- rates of links

let counted = { at: 0, bytes: {} };
function countLinks() {
  const now = performance.now(), bytes = {};
  if (now - counted.at < 2000) return;
  for (const [name, n] of Object.entries(model.state.nodes)) for (const [peer, l] of Object.entries(n.links)) bytes[`${name}>${peer}`] = l.out;
  const rates = {};
  for (const key in bytes) if (key in counted.bytes) rates[key] = (Math.max(0, bytes[key] - counted.bytes[key]) * 1000) / (now - counted.at);
  counted = { at: now, bytes };
  model.rates = rates;
}

// --- requests

async function get(path) {
  const r = await fetch(path, { cache: "no-store" });
  if (r.status === 401) location.reload(); // the form for the token
  if (!r.ok) throw new Error(`${path}: ${r.status}`);
  return r.json();
}
// {runs, total}: the newest first, without the `offset` newest ones.
export const getRuns = (offset, limit) => get(`/api/runs?offset=${offset}&limit=${limit}`);
export const getRun = (name) => get(`/api/run?name=${encodeURIComponent(name)}`);

let socket = null, asked = 0, delay = 500;
const waiting = new Map();

// Sends a line of the REPL. `progress` gets texts before the last one. The result is {how, text}.
export function ask(line, { json = false, progress = () => {} } = {}) {
  return new Promise((done) => {
    if (model.link !== "live") return done({ how: "failed", text: "there is no connection with the server" });
    const id = ++asked;
    waiting.set(id, { done, progress, text: "" });
    socket.send(JSON.stringify({ id, line, json }));
  });
}

function reply(m) {
  const w = waiting.get(m.id);
  if (!w) return;
  if (m.text) w.text = m.text;
  if (m.more) return w.progress(m.text);
  waiting.delete(m.id);
  w.done({ how: m.how, text: m.text || w.text });
}

function take(m) {
  if (m.t === "reply") return reply(m);
  if (m.t === "events") m.events.forEach(note);
  if (m.t === "patch") merge(model.state, m.patch);
  if (m.t === "state") {
    model.state = m.state;
    model.curves = {};
    model.log = [];
    counted = { at: 0, bytes: {} };
  }
  if (m.t !== "events") countLinks();
  changed();
}

export function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/feed`);
  socket.onopen = () => {
    delay = 500;
    model.link = "live";
    changed();
  };
  socket.onmessage = (e) => take(JSON.parse(e.data));
  socket.onclose = () => {
    model.link = "lost";
    for (const w of waiting.values()) w.done({ how: "failed", text: "the connection was lost; the command may still be executed" });
    waiting.clear();
    changed();
    setTimeout(again, delay);
    delay = Math.min(delay * 2, 4000);
  };
}

// A refused WebSocket does not say why: the session may have ended.
async function again() {
  try {
    await get("/api/session");
    connect();
  } catch {
    setTimeout(again, delay);
    delay = Math.min(delay * 2, 4000);
  }
}
