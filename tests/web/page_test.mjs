// The browser page on a cluster of three daemons, in a real browser: node page_test.mjs BIN_DIR.
// Exit code 77: node's packages (npm ci in this folder) or chromium are missing.
// No step waits for a time: each waits until the page or a daemon shows what is expected.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cluster, Program, tinyJob } from "./cluster.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const browserFile = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const packages = existsSync(join(here, "node_modules", "playwright-core")) && existsSync(join(here, "node_modules", "axe-core"));
if (!browserFile || !packages) {
  console.log(`skipped: ${browserFile ? "the npm packages of tests/web are" : "chromium is"} not installed (scripts/setup --test)`);
  process.exit(77);
}
const { chromium } = (await import("playwright-core")).default;
const axe = readFileSync(join(here, "node_modules", "axe-core", "axe.min.js"), "utf8");
const within = 30000;

const problems = []; // of all pages: errors in the console, requests to other hosts
const expectedErrors = /WebSocket connection|Failed to load resource|ERR_CONNECTION/; // while the daemon is down; 401 before the login

async function openPage(browser, url, options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(within);
  const page = await context.newPage();
  page.on("console", (m) => m.type() === "error" && !expectedErrors.test(m.text()) && problems.push(m.text()));
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on("request", (r) => r.url().startsWith(url) || r.url().startsWith(url.replace("http", "ws")) || r.url().startsWith("data:") || problems.push(`request to ${r.url()}`));
  await page.goto(url);
  return page;
}
async function logIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator(".link.live").waitFor();
}
const show = (page, view) => page.getByRole("navigation").getByRole("link", { name: view, exact: true }).click();
// The result of a command, as the bar at the bottom shows it.
const result = (page, pattern) => page.getByRole("status").filter({ hasText: pattern }).waitFor();
const step = async (page) => Number((await page.locator(".progress b").textContent()).replace(/,/g, ""));
async function trains(page) {
  const before = await step(page);
  await until(page, async () => (await step(page)) > before);
}
// Looks after each frame that the browser draws. The page's policy forbids waitForFunction, which needs eval.
async function until(page, done) {
  for (const end = Date.now() + within; !(await done()); ) {
    assert.ok(Date.now() < end, `not within ${within} ms: ${done}`);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}
const nodeState = (page, name, state) => page.locator("tr", { has: page.locator("th", { hasText: new RegExp(`^${name}$`) }) }).locator(`.state.${state}`).first().waitFor();

const tests = [];
const test = (name, run) => tests.push([name, run]);

test("asks for the token, and shows nothing before", async ({ page, cluster }) => {
  assert.equal((await page.request.get(cluster.url)).status(), 401);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("This is not the token.").waitFor();
  await logIn(page, cluster.token);
  assert.ok(!page.url().includes(cluster.token));
  for (const d of Object.values(cluster.daemons)) assert.ok(!d.out.includes(cluster.token), "the log has the token");
});

test("a job appears while it trains", async (t) => {
  await t.page.getByText("There are no jobs.").waitFor();
  t.training = t.cluster.train(t.cluster.job("tiny.toml", tinyJob));
  await t.page.getByRole("heading", { name: "tiny", level: 1 }).waitFor();
  await t.page.locator(".title .state.running").waitFor();
  await trains(t.page);
  await t.page.getByRole("img", { name: /^Loss over steps; last: training/ }).waitFor();
  await t.page.getByRole("img", { name: /^Accuracy over steps/ }).waitFor();
});

test("pauses and resumes", async ({ page }) => {
  await page.getByRole("button", { name: "Pause" }).click();
  await result(page, /paused at step \d+/);
  await page.locator(".title .state.paused").waitFor();
  const at = await step(page);
  await page.getByRole("button", { name: "Resume" }).click();
  await result(page, /resumed at step \d+/);
  await page.locator(".title .state.running").waitFor();
  await trains(page);
  assert.ok((await step(page)) > at);
});

test("sets the learning rate", async ({ page }) => {
  await page.getByText("Sets the base learning rate, now 0.01; a schedule multiplies it, at this step by 1.").waitFor();
  await page.getByLabel("Value").fill("0.002");
  await page.getByText("0.002 gives a rate of 0.002 at this step.").waitFor();
  await page.getByRole("button", { name: "Set", exact: true }).click();
  await result(page, /0\.01 -> 0\.002 from step \d+/);
  await page.locator(".tile", { hasText: "learning rate" }).filter({ hasText: "0.002" }).waitFor();
  await page.getByLabel("Value").fill("fast");
  await page.getByLabel("Value").press("Enter");
  await result(page, /not a non-negative number/);
});

test("switches the mode", async ({ page }) => {
  await page.getByLabel("Mode").selectOption("ssp");
  await page.getByLabel("Options").fill("staleness=3");
  await page.getByRole("button", { name: "Switch" }).click();
  await result(page, /bsp.* -> ssp staleness=3 from step \d+/);
  await page.locator(".tile", { hasText: "mode" }).filter({ hasText: "ssp staleness=3" }).waitFor();
  await page.getByLabel("Options").fill("");
  await page.getByLabel("Mode").selectOption("bsp");
  await page.getByRole("button", { name: "Switch" }).click();
  await result(page, /-> bsp from step \d+/);
  await trains(page);
});

test("writes a checkpoint", async ({ page }) => {
  await page.getByRole("button", { name: "Checkpoint" }).click();
  await result(page, /checkpoint of step \d+ in \//);
  await page.locator(".tile", { hasText: "checkpoint" }).filter({ hasText: /step [\d,]+/ }).waitFor();
});

test("moves a layer", async ({ page }) => {
  await show(page, "Cluster");
  await page.getByLabel("Layer").selectOption("ip1");
  await page.getByLabel("To node").selectOption("n2");
  await page.getByRole("button", { name: "Move" }).click();
  await result(page, /ip1.*n2.* at step \d+ in \d+ ms/);
});

test("shows the roles, by keyboard too", async ({ page }) => {
  await show(page, "Company");
  await page.getByRole("button", { name: /^coordinator: / }).waitFor();
  const stage = page.getByRole("button", { name: /^worker0\/conv1: / });
  await stage.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "worker0/conv1" }).waitFor();
  assert.equal(await stage.getAttribute("aria-pressed"), "true");
});

test("shows that a node is killed, and is back", async ({ page, cluster }) => {
  await show(page, "Cluster");
  await cluster.daemons.n3.end("SIGKILL");
  await nodeState(page, "n3", "lost");
  await cluster.start("n3");
  await nodeState(page, "n3", "up");
  await show(page, "Run");
  await page.locator(".events li.recovered").first().waitFor();
  await trains(page);
});

test("has no control for faults where none can be injected", async ({ page }) => {
  await show(page, "Cluster");
  await page.getByRole("button", { name: "Move" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Inject" }).count(), 0, "the page's role is operator");
  assert.equal(await page.getByRole("button", { name: "Add" }).first().getAttribute("title"), "the job may use this node already");
});

test("an open page recovers from a restart of its daemon", async ({ page, cluster }) => {
  await show(page, "Run");
  await cluster.daemons.n1.end("SIGKILL");
  await page.getByRole("alert").filter({ hasText: "The connection was lost" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Checkpoint" }).getAttribute("aria-disabled"), "true");
  await cluster.start("n1");
  await page.locator(".link.live").waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await page.locator(".title .state.running").waitFor();
  await trains(page);
});

for (const colorScheme of ["light", "dark"])
  for (const width of [1280, 375, 360])
    test(`is accessible in ${colorScheme} at ${width} pixels`, async ({ browser, cluster }) => {
      const page = await openPage(browser, cluster.url, { colorScheme, viewport: { width, height: 800 } });
      await check(page, `form ${colorScheme} ${width}`);
      await logIn(page, cluster.token);
      for (const view of ["Run", "Company", "Cluster", "Jobs", "Compare runs"]) {
        await show(page, view);
        await page.getByRole("heading", { level: 1 }).waitFor();
        if (view === "Compare runs") await page.getByRole("table").first().waitFor();
        assert.equal(await page.evaluate(() => scrollY), 0, "a view begins at its top");
        await check(page, `${view} ${colorScheme} ${width}`);
      }
      await page.context().close();
    });

// axe-core finds nothing serious, the page does not scroll sideways, and nothing is cut off outside tables that scroll.
async function check(page, name) {
  const session = await page.context().newCDPSession(page); // the page's policy forbids a script element
  await session.send("Runtime.evaluate", { expression: `${axe};0` });
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const bad = violations.filter((v) => ["serious", "critical"].includes(v.impact));
  assert.deepEqual(bad.map((v) => `${name}: ${v.id}: ${v.nodes[0].html}`), []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the window`);
  const cut = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .hidden")).map((e) => e.outerHTML.slice(0, 80)));
  assert.deepEqual(cut, [], `${name} is cut off`);
}

test("compares runs", async ({ page }) => {
  await show(page, "Compare runs");
  await page.getByRole("checkbox", { name: /^compare 1-tiny/ }).waitFor();
  await page.getByRole("img", { name: /^Loss over steps/ }).waitFor();
});

test("keeps chosen runs on other pages of the list and in other views", async ({ browser, cluster }) => {
  const page = await openPage(browser, cluster.url);
  await logIn(page, cluster.token);
  const run = (n) => ({ folder: `${n}-made`, name: "made", state: "done", steps: n, loss: 1, best_accuracy: 0.5, seconds: 1, mode: "bsp", started: "" });
  await page.route(/\/api\/runs\?/, (r) => {
    const q = new URL(r.request().url()).searchParams, offset = Number(q.get("offset")), limit = Number(q.get("limit"));
    const all = Array.from({ length: 120 }, (_, i) => run(120 - i));
    return r.fulfill({ json: { runs: all.slice(offset, offset + limit), total: all.length } });
  });
  const curve = { x: [1, 2, 3], mean: [0.5, 0.9, 1], low: [0.5, 0.9, 1], high: [0.5, 0.9, 1] };
  await page.route(/\/api\/run\?/, (r) => {
    const name = new URL(r.request().url()).searchParams.get("name");
    return r.fulfill({ json: { run: { folder: name }, curves: { accuracy: curve }, keys: { "job.name": name } } });
  });
  await show(page, "Compare runs");
  await page.getByRole("checkbox", { name: "compare 118-made" }).check();
  await page.getByRole("button", { name: "Older" }).click();
  await page.getByRole("checkbox", { name: "compare 61-made" }).check();
  await page.getByRole("button", { name: "Oldest" }).click();
  await page.getByRole("checkbox", { name: "compare 1-made" }).check();
  await show(page, "Jobs");
  await show(page, "Compare runs");
  assert.equal(await page.getByRole("checkbox", { name: "compare 1-made" }).isChecked(), true);
  for (const n of [120, 119, 118, 61, 1]) await page.getByRole("button", { name: `do not compare ${n}-made` }).waitFor();
  await page.getByRole("button", { name: "do not compare 61-made" }).click();
  await page.getByRole("button", { name: "Newer" }).click();
  await page.getByRole("checkbox", { name: "compare 61-made", exact: true }).waitFor();
  assert.equal(await page.getByRole("checkbox", { name: "compare 61-made", exact: true }).isChecked(), false);
  await page.context().close();
});

test("shows the values below the cursor", async ({ page }) => {
  await show(page, "Run");
  const chart = page.locator(".chart", { hasText: "Loss" }).first();
  await chart.locator(".u-over").hover();
  await chart.locator(".legend").getByText(/^step [\d,]+/).waitFor();
});

test("a run in one process has a page, too", async ({ browser, cluster }) => {
  const file = cluster.job("here.toml", tinyJob.replace("workers_per_group = 3", "workers_per_group = 1"));
  const run = new Program(join(cluster.bin, "troupe"), ["train", file, "--run-dir", "runs", "--page"], { cwd: cluster.folder });
  const [, url, token] = await run.saw(/(http:\/\/127\.0\.0\.1:\d+\/), its token is in (\S+)/);
  const page = await openPage(browser, url);
  await logIn(page, readFileSync(token, "utf8").trim());
  await trains(page);
  await page.locator(".panel", { hasText: "Time by layer" }).getByText("conv1").waitFor();
  await show(page, "Cluster");
  await page.getByRole("heading", { name: "Cluster", level: 1 }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Inject" }).count(), 0, "one process");
  await show(page, "Run");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Really stop?" }).click();
  await run.ended;
  assert.match(run.out, /troupe resume 1/);
  await page.getByRole("alert").filter({ hasText: "The connection was lost" }).waitFor();
  await page.context().close();
});

test("logs out", async ({ page, cluster }) => {
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal((await page.request.get(`${cluster.url}api/runs`)).status(), 401);
});

const cluster = await Cluster.make(process.argv[2], 3);
const browser = await chromium.launch({ executablePath: browserFile, args: ["--no-sandbox"] });
const t = { cluster, browser, page: await openPage(browser, cluster.url) };
let failed = 0;
const only = process.argv[3];
for (const [name, run] of tests) {
  if (failed || (only && !name.match(only) && !/asks|appears/.test(name))) continue;
  const begin = Date.now();
  try {
    await run(t);
    console.log(`ok    ${name} (${Date.now() - begin} ms)`);
  } catch (e) {
    ++failed;
    console.log(`FAIL  ${name}: ${e.stack}`);
    console.log(`the page shows: ${(await t.page.locator("body").innerText().catch(() => "")).slice(0, 1500)}`);
    for (const [node, d] of Object.entries(cluster.daemons)) console.log(`--- ${node}\n${d.out.slice(-1500)}`);
    if (t.training) console.log(`--- train\n${t.training.out.slice(-1500)}`);
  }
}
if (problems.length) console.log(`FAIL  the browser reported:\n${[...new Set(problems)].join("\n")}`);
await browser.close();
if (t.training) await t.training.end("SIGKILL");
await cluster.close();
process.exit(failed || problems.length ? 1 : 0);
