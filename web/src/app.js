// The page: header, routes, and the state of the connection.
import { html } from "htm/preact";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./app.css";
import { connect, listen, model } from "./feed.js";
import { duration } from "./format.js";
import { startTheme, theme } from "./theme.js";
import { Result } from "./ui.js";
import { Cluster } from "./cluster.js";
import { Company } from "./company.js";
import { Jobs } from "./jobs.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";

const views = { run: ["Run", Run], company: ["Company", Company], cluster: ["Cluster", Cluster], jobs: ["Jobs", Jobs], runs: ["Compare runs", Runs] };

// For the keyboard: the next Tab is in the view.
function toContent() {
  document.getElementById("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

// "#/run/3" -> ["run", "3"]
function route() {
  const [name, argument] = location.hash.replace(/^#\/?/, "").split("/");
  return views[name] ? [name, argument && decodeURIComponent(argument)] : ["run"];
}

function ThemeSwitch() {
  const next = { auto: "light", light: "dark", dark: "auto" }[theme.choice];
  return html`<button class="plain" onClick=${() => theme.use(next)} title=${`Colours: ${theme.choice}; press for ${next}`}>
    <span class="hidden">Colours: </span>${{ auto: "◐ auto", light: "○ light", dark: "● dark" }[theme.choice]}</button>`;
}

function Header({ name }) {
  const a = model.state?.about;
  return html`<header class="top">
    <p class="brand"><img src="/icon.svg" width="22" height="22" alt="" /> <b>Troupe</b>
      <span>${a && (a.cluster ? `cluster ${a.cluster}, on ${a.node}` : "one process")}</span></p>
    <nav aria-label="Views">${Object.entries(views).map(([key, [label]]) => html`<a key=${key} href=${`#/${key}`} aria-current=${key === name ? "page" : undefined}>${label}</a>`)}</nav>
    <div class="tools"><span class=${`link ${model.link}`}><span class="mark" aria-hidden="true"></span>${model.link}${model.link === "live" && html`<span class="up">, up ${duration(model.state?.up ?? 0)}</span>`}</span>
      <${ThemeSwitch} /><form method="post" action="/logout"><button class="plain">Log out</button></form></div>
  </header>`;
}

function App() {
  const [, draw] = useState(0);
  const [[name, argument], go] = useState(route());
  useEffect(() => {
    const moved = () => {
      go(route());
      toContent();
    };
    addEventListener("hashchange", moved);
    const quiet = listen(() => draw((n) => n + 1));
    return () => (removeEventListener("hashchange", moved), quiet());
  }, []);
  useEffect(() => {
    document.title = `${views[name][0]} – Troupe`;
  }, [name]);
  const View = views[name][1];
  return html`<a class="skip" href="#main" onClick=${(e) => (e.preventDefault(), toContent())}>To the content</a>
    <${Header} name=${name} />
    ${model.link === "lost" && html`<p class="lost" role="alert">The connection was lost. Trying again; values below are the last ones.</p>`}
    <main id="main" tabindex="-1">${model.state ? html`<${View} argument=${argument} />` : html`<p class="empty">Connecting…</p>`}</main>
    <${Result} />`;
}

startTheme();
connect();
render(html`<${App} />`, document.getElementById("app"));
