// Texts of numbers, and the names of roles.

export const number = (x, digits = 4) => (x === undefined || x === null ? "–" : Math.abs(x) >= 1e5 ? count(x) : String(Number(x.toPrecision(digits))));
export const count = (n) => (n === undefined || n === null ? "–" : Math.round(n).toLocaleString("en"));
export const percent = (x) => (x === undefined || x === null ? "–" : `${(100 * x).toFixed(2)} %`);

export function bytes(n) {
  if (n === undefined || n === null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) (n /= 1000), ++i;
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export function duration(s) {
  if (s === undefined || s === null) return "–";
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

const over = ["done", "stopped", "preempted", "failed"];
export const isOver = (job) => over.includes(job.state);

// The job to show first: the running one, else the newest.
export function currentJob(state) {
  const ids = Object.keys(state.jobs).map(Number).sort((a, b) => b - a);
  return ids.find((id) => !isOver(state.jobs[id]) && state.jobs[id].state !== "queued") ?? ids[0];
}

// The group and kind of a role by its name: "worker0/conv1" is the stage conv1 of worker0.
export function place(name) {
  const slash = name.indexOf("/");
  const head = slash < 0 ? name : name.slice(0, slash), part = slash < 0 ? "" : name.slice(slash + 1);
  const stem = head.replace(/\d+$/, "");
  if (part) return { group: head, label: part, kind: part === "loader" || part === "reducer" ? part : "stage" };
  if (stem === "worker" || stem === "host") return { group: head, label: "worker sync", kind: "worker" };
  if (stem === "shard" || stem === "replica") return { group: "parameters", label: name, kind: stem };
  return { group: stem === "tester" ? "tester" : "job", label: name, kind: stem };
}

export const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });
