// Processes of Troupe for the browser tests: a cluster of daemons with a page, and the folder of its files.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function freePort() {
  return new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });
}

// A child process whose output is kept.
export class Program {
  constructor(command, args, options = {}) {
    this.out = "";
    this.watchers = new Set();
    this.child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream.on("data", (d) => {
        this.out += d;
        for (const w of this.watchers) w();
      });
    this.ended = new Promise((done) => this.child.on("close", done));
  }
  // The match of `pattern` in the output, or an error after `within` ms, or when the process ends.
  saw(pattern, within = 30000) {
    return new Promise((done, fail) => {
      const end = (how, value) => {
        clearTimeout(timer);
        this.watchers.delete(look);
        how(value);
      };
      const look = () => {
        const m = this.out.match(pattern);
        if (m) end(done, m);
      };
      const wrong = (why) => end(fail, new Error(`${why} before ${pattern}:\n${this.out.slice(-3000)}`));
      const timer = setTimeout(() => wrong("too late"), within);
      this.watchers.add(look);
      this.ended.then(() => wrong("the process ended"));
      look();
    });
  }
  async end(signal = "SIGTERM") {
    this.child.kill(signal);
    await this.ended;
  }
}

export class Cluster {
  // `keys`: further lines of [cluster].
  static async make(bin, count, keys = "") {
    const c = new Cluster();
    c.bin = bin;
    c.folder = mkdtempSync(join(tmpdir(), "troupe-page-"));
    c.file = join(c.folder, "cluster.toml");
    c.pagePort = await freePort();
    c.daemons = {};
    let text = `[cluster]\nname = "lab"\ndata = [".", "/usr/share/datasets"]\npage = "127.0.0.1:${c.pagePort}"\n${keys}[cluster.tls]\ndir = "certs"\n`;
    for (let i = 1; i <= count; ++i)
      text += `[[node]]\nname = "n${i}"\naddress = "127.0.0.1:${await freePort()}"\nroles = [${i === 1 ? '"coordinator", "data", ' : ""}"worker", "server"]\n`;
    writeFileSync(c.file, text);
    const made = spawnSync(join(bin, "troupe"), ["init-cluster", "--cluster", c.file], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(made.stdout + made.stderr);
    for (let i = 1; i <= count; ++i) await c.start(`n${i}`);
    for (let i = 2; i <= count; ++i) await c.daemons[`n${i}`].saw(/joined the cluster/);
    return c;
  }
  async start(name) {
    this.daemons[name] = new Program(join(this.bin, "trouped"), ["--cluster", this.file, "--node", name], { cwd: this.folder });
    await this.daemons[name].saw(new RegExp(`ready ${name}`));
  }
  get url() {
    return `http://127.0.0.1:${this.pagePort}/`;
  }
  get token() {
    return readFileSync(join(this.folder, "state", "n1", "page.token"), "utf8").trim();
  }
  job(name, text) {
    const file = join(this.folder, name);
    writeFileSync(file, text);
    return file;
  }
  train(file, sets = []) {
    return new Program(join(this.bin, "troupe"), ["train", file, "--cluster", this.file, ...sets.flatMap((s) => ["--set", s])], { cwd: this.folder });
  }
  async close() {
    for (const d of Object.values(this.daemons)) await d.end("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// Trains until it is stopped; `steps` of it take about `steps`/1000 s.
export const tinyJob = `[job]
name = "tiny"
seed = 3
[data]
source = "synthetic"
shape = [1, 8, 8]
classes = 4
examples = 480
test_examples = 48
batch = 24
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 4
kernel = 3
[[layer]]
name = "ip1"
type = "linear"
inputs = ["conv1"]
outputs = 16
[[layer]]
name = "relu1"
type = "relu"
inputs = ["ip1"]
[[layer]]
name = "ip2"
type = "linear"
inputs = ["relu1"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip2", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip2", "label"]
phase = "test"
[train]
dynamics = { rule = "momentum", lr = 0.01, momentum = 0.9 }
sync = { mode = "bsp" }
finish = { steps = 100000000 }
[eval]
every = 200
[pipeline]
packets = 6
[topology]
worker_groups = 1
workers_per_group = 3
server_groups = 1
servers_per_group = 1
`;
