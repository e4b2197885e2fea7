// Makes the pictures of docs/page.md: node pictures.mjs BIN_DIR FOLDER. LeNet trains on Fashion-MNIST on three
// daemons; for the second picture one of them is stopped for some seconds.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cluster } from "./cluster.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const { chromium } = createRequire(import.meta.url)("playwright-core");
const [bin, folder] = process.argv.slice(2);
const job = readFileSync(join(here, "../../configs/jobs/lenet_fashion.toml"), "utf8");

const cluster = await Cluster.make(bin, 3, 'page_role = "admin"\ninject = true\n');
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1200, height: 860 } });
const page = await context.newPage();
await page.goto(cluster.url);
await page.getByLabel("Token").fill(cluster.token);
await page.getByRole("button", { name: "Log in" }).click();
const training = cluster.train(cluster.job("lenet.toml", job), ["topology.workers_per_group=3", "topology.servers_per_group=3", "pipeline.packets=8", "eval.every=150", "train.finish.epochs=2"]);
await page.locator(".events li.eval").nth(5).waitFor({ timeout: 300000 });
await page.getByRole("button", { name: "Checkpoint" }).click();
await page.getByRole("status").filter({ hasText: "checkpoint of step" }).waitFor();
await page.getByRole("button", { name: "Close the message" }).click();
await page.locator(".side").getByText(/clock/).first().waitFor();
await page.screenshot({ path: join(folder, "page-run.png") });

await page.getByRole("navigation").getByRole("link", { name: "Cluster" }).click();
await page.getByLabel("Fault").selectOption("stop");
await page.locator("label", { hasText: /^Node / }).locator("select").selectOption("n2");
await page.getByLabel("For").fill("3500ms");
await page.getByRole("button", { name: "Inject" }).click();
await page.getByRole("status").filter({ hasText: "injected" }).waitFor();
await page.getByRole("button", { name: "Close the message" }).click();
await page.getByRole("navigation").getByRole("link", { name: "Company" }).click();
await page.locator(".roots .worst").waitFor({ timeout: 20000 });
await page.locator(".roots .worst").getByText(/ 2(\.\d)? s/).waitFor({ timeout: 20000 });
const graph = await page.locator(".company").boundingBox();
await page.screenshot({ path: join(folder, "page-company.png"), clip: { x: 0, y: 0, width: 1200, height: Math.min(860, graph.y + graph.height + 12) } });
await browser.close();
await training.end("SIGKILL");
await cluster.close();
