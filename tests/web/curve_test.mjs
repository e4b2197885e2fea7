// The points of curves of the page (web/src/curve.js): node curve_test.mjs. Needs no browser and no packages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { addPoint, curveOf, drawn, joinedCurves, makeCurve, most } from "../../web/src/curve.js";

const made = (from, to, f) => {
  const c = makeCurve();
  for (let x = from; x < to; ++x) addPoint(c, x, f(x));
  return c;
};
// Steps between neighbouring points.
const gaps = (c) => c.x.slice(1).map((x, i) => x - c.x[i]);

test("keeps_each_point_when_they_are_few", () => {
  const c = made(1, 101, (x) => 2 * x);
  assert.deepEqual(c.x, [...Array(100).keys()].map((i) => i + 1));
  assert.deepEqual([c.mean, c.low, c.high], [c.x, c.x, c.x].map((a) => a.map((x) => 2 * x)));
  assert.equal(drawn(c, 100, 200), c);
});

test("early_and_late_points_have_the_same_distance_when_there_are_many", () => {
  const c = made(0, 1e6, (x) => x % 7);
  assert.ok(c.x.length <= most && c.x.length > most / 4, String(c.x.length));
  for (const curve of [c, drawn(c, 1e6, 200)]) {
    const g = gaps(curve).slice(0, -1);
    assert.equal(Math.min(...g), Math.max(...g));
    assert.deepEqual([Math.min(...curve.low), Math.max(...curve.low)], [0, 0]);
    assert.deepEqual([Math.min(...curve.high), Math.max(...curve.high)], [6, 6]);
    for (const m of curve.mean.slice(0, -1)) assert.ok(Math.abs(m - 3) < 0.05, String(m));
  }
  assert.ok(drawn(c, 1e6, 200).x.length <= 201);
});

test("keeps_peaks_and_the_last_value_when_points_are_merged", () => {
  const c = made(0, 100000, (x) => (x === 31234 ? 99 : x === 99999 ? -3 : 1));
  const d = drawn(c, 100000, 100);
  assert.equal(Math.max(...d.high), 99);
  assert.equal(Math.min(...d.low), -3);
  assert.equal(d.last, -3);
  assert.equal(d.x.at(-1), 99999);
  const all = d.mean.reduce((sum, m, i) => sum + m * d.count[i], 0);
  assert.ok(Math.abs(all - (100000 + 98 - 4)) < 1e-6, "means are weighted by their counts");
});

test("repeated_steps_replace_the_earlier_ones", () => {
  const c = made(0, 10, () => 1);
  addPoint(c, 5, 7);
  assert.deepEqual(c.x, [0, 1, 2, 3, 4, 5]);
  assert.equal(c.mean.at(-1), 7);
});

test("leaves_out_values_that_are_missing", () => {
  const c = makeCurve();
  addPoint(c, 1, undefined);
  addPoint(c, 2, null);
  assert.deepEqual(c.x, []);
});

test("a_run_and_its_events_look_alike_when_they_are_joined", () => {
  const x = [...Array(400).keys()].map((i) => i * 100 + 50), same = (v) => x.map(() => v);
  const history = curveOf({ x, mean: same(3), low: same(0), high: same(6) });
  const c = joinedCurves(history, made(30000, 40001, (s) => s % 7));
  assert.ok(c.x.every((s, i) => i === 0 || s > c.x[i - 1]), "steps increase");
  const d = drawn(c, 40000, 150);
  assert.ok(d.low.slice(0, -1).every((v) => v === 0) && d.high.slice(0, -1).every((v) => v === 6));
  assert.equal(d.last, 40000 % 7);
  assert.equal(joinedCurves(history, makeCurve()).x.length, 400);
  assert.equal(joinedCurves(curveOf(undefined), made(0, 5, () => 1)).x.length, 5);
});
