// Parts that several views use.
import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, changed, model } from "./feed.js";

// --- the result of the last command, shown at the bottom of the page

export const result = { text: "", how: "" };
function say(how, text) {
  result.how = how;
  result.text = text;
  changed();
}
// Sends a command of the REPL and shows its result.
export async function command(line) {
  say("busy", `${line} …`);
  const r = await ask(line, { progress: (text) => say("busy", `${line}: ${text}`) });
  say(r.how === "ok" ? "ok" : "failed", `${line}: ${r.text || "done"}`);
  return r;
}
export function Result() {
  return html`<div class=${`result ${result.how}`} role="status" aria-live="polite">
    ${result.text && html`<span class="mark" aria-hidden="true"></span><span class="text">${result.text}</span>
      <button class="plain" aria-label="Close the message" onClick=${() => say("", "")}>✕</button>`}
  </div>`;
}

// --- rights: why a control is disabled; "" if it is not

export function whyNot(right = "run_jobs") {
  if (model.link !== "live") return "there is no connection with the server";
  const { role, may } = model.state.about;
  if (may[right]) return "";
  return `this page has the role ${role}; ${right === "run_jobs" ? "operator or admin" : "admin"} is needed`;
}
export function Button({ line, right, why = "", confirm, class: kind = "", children, onDone }) {
  const [sure, setSure] = useState(false);
  const refused = whyNot(right) || why;
  const press = async () => {
    if (confirm && !sure) {
      setSure(true);
      return;
    }
    setSure(false);
    const r = await command(line);
    if (onDone) onDone(r);
  };
  return html`<button class=${`${kind} ${sure ? "sure" : ""}`} aria-disabled=${refused ? "true" : undefined} title=${refused || line}
    onClick=${refused ? undefined : press} onBlur=${() => setSure(false)}>${sure ? confirm : children}</button>`;
}

// --- small parts

export function State({ of }) {
  return html`<span class=${`state ${of}`}><span class="mark" aria-hidden="true"></span>${of}</span>`;
}
export function Tile({ label, children, note }) {
  return html`<div class="tile"><dt>${label}</dt><dd>${children}${note && html`<small>${note}</small>`}</dd></div>`;
}
export function Panel({ title, children, class: kind = "", actions }) {
  return html`<section class=${`panel ${kind}`}><header><h2>${title}</h2>${actions}</header>${children}</section>`;
}
// Horizontal bars: rows of {label, value, text}.
export function Bars({ rows, label, colour = "var(--series-0)" }) {
  if (rows.length === 0) return html`<p class="empty">Nothing yet.</p>`;
  const most = Math.max(...rows.map((r) => r.value), 1e-12);
  return html`<table class="bars"><caption class="hidden">${label}</caption><tbody>
    ${rows.map((r) => html`<tr key=${r.label}><th scope="row">${r.label}</th>
      <td class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(0.5, (100 * r.value) / most)} height="8" fill=${colour} /></svg></td>
      <td class="value">${r.text}</td></tr>`)}
  </tbody></table>`;
}
export function Scroll({ label, children }) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0">${children}</div>`;
}

// The width of an element, as it changes.
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const o = new ResizeObserver(([e]) => setWidth(Math.floor(e.contentRect.width)));
    o.observe(ref.current);
    return () => o.disconnect();
  }, []);
  return [ref, width];
}
