// A metric over steps, in bounded memory: the mean, lowest and highest value of each `width` steps. The width doubles when
// there are more than `most` buckets, for all of them, so that early and late steps look alike. Pure.

export const most = 2048;

// Parallel arrays: x is the last step of a bucket. `last` is the last value.
export const makeCurve = () => ({ width: 1, x: [], mean: [], low: [], high: [], count: [], last: undefined });
export const isEmpty = (c) => c.x.length === 0;

const arrays = ["x", "mean", "low", "high", "count"];

function put(c, x, mean, low, high, count) {
  const n = c.x.length - 1;
  if (n >= 0 && Math.floor(c.x[n] / c.width) === Math.floor(x / c.width)) {
    const all = c.count[n] + count;
    c.mean[n] += ((mean - c.mean[n]) * count) / all;
    c.low[n] = Math.min(c.low[n], low);
    c.high[n] = Math.max(c.high[n], high);
    c.count[n] = all;
    c.x[n] = x;
  } else {
    c.x.push(x), c.mean.push(mean), c.low.push(low), c.high.push(high), c.count.push(count);
  }
}

// The same values in buckets of `width` steps, which is a multiple of the curve's.
function inWidth(c, width) {
  const to = { ...makeCurve(), width, last: c.last };
  for (let i = 0; i < c.x.length; ++i) put(to, c.x[i], c.mean[i], c.low[i], c.high[i], c.count[i]);
  return to;
}

// Steps that are repeated after a failure replace the earlier ones. A value that is missing is left out.
export function addPoint(c, x, mean, low = mean, high = mean) {
  if (mean === undefined || mean === null) return;
  let n = c.x.length;
  while (n > 0 && c.x[n - 1] >= x) --n;
  for (const key of arrays) c[key].length = n;
  put(c, x, mean, low, high, 1);
  c.last = mean;
  while (c.x.length > most) Object.assign(c, inWidth(c, 2 * c.width));
}

// A curve of the server: {x, mean, low, high}, see actors/page/runs.hpp.
export function curveOf(given) {
  const c = makeCurve();
  (given?.x ?? []).forEach((x, i) => addPoint(c, x, given.mean[i], given.low[i], given.high[i]));
  return c;
}

// The points of `earlier` that are before those of c, then those of c.
export function joinedCurves(earlier, c) {
  const first = isEmpty(c) ? Infinity : c.x[0];
  const to = { ...makeCurve(), width: Math.max(earlier.width, c.width), last: c.last ?? earlier.last };
  for (let i = 0; i < earlier.x.length && earlier.x[i] < first; ++i) put(to, earlier.x[i], earlier.mean[i], earlier.low[i], earlier.high[i], earlier.count[i]);
  for (let i = 0; i < c.x.length; ++i) put(to, c.x[i], c.mean[i], c.low[i], c.high[i], c.count[i]);
  return to.x.length > most ? inWidth(to, 2 * to.width) : to;
}

// What a chart of `columns` columns draws of steps up to `end`: at most that many buckets, of one width.
export function drawn(c, end, columns) {
  if (c.x.length <= columns) return c;
  let width = c.width;
  while (end / width > columns) width *= 2;
  return width > c.width ? inWidth(c, width) : c;
}
