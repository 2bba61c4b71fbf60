"use strict";
// Draws the charts: curves is a list of {title, unit, series: [{name, color, dash, x, y}]}, memory one of
// {title, x, at, series: [{name, color, bytes}]}.
const plots = [];
const short = (v, unit, digits) => v == null ? "" : +v.toPrecision(digits) + unit;

function draw(box, title, x, unit, series, data) {
  const options = {
    title, width: box.clientWidth, height: 280, scales: { x: { time: false } },
    axes: [{ ...axis, values: (u, all) => all.map(v => short(v, x.unit || "", 4)) }, { ...axis, size: 70, values: (u, all) => all.map(v => short(v, unit, 4)) }],
    series: [x, ...series],
  };
  const plot = new uPlot(options, data, box);
  plots.push(plot);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 280 })).observe(box);
}

const charts = document.getElementById("charts");
for (const chart of curves || []) {
  const box = document.createElement("div");
  charts.append(box);
  const value = (u, v) => short(v, chart.unit, 5) || "–";
  draw(box, chart.title, { label: "epoch" }, chart.unit,
    chart.series.map(s => ({ label: s.name, stroke: s.color, dash: s.dash, width: 1.5, spanGaps: true, value })),
    uPlot.join(chart.series.map(s => [s.x, s.y])));
}

// Each kind is drawn from 0 to the sum of it and those below, the highest first.
const boxes = document.querySelectorAll(".memory");
(memory || []).forEach((chart, k) => {
  const sum = chart.x.map(() => 0), kinds = [];
  for (const s of chart.series) kinds.unshift({ ...s, y: s.bytes.map((b, i) => (sum[i] += b) / 1e6) });
  const value = s => (u, v, at, i) => i == null ? "–" : short(s.bytes[i] / 1e6, " MB", 4);
  const series = kinds.map(s => ({ label: s.name, stroke: s.color, fill: s.color, width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }), value: value(s) }));
  const where = { label: "at", points: { show: false }, paths: () => null, value: (u, v, at, i) => i == null ? "–" : chart.at[i] };
  draw(boxes[k], chart.title, { label: "time", unit: " ms", value: (u, v) => short(v, " ms", 4) || "–" }, " MB", [...series, where],
    [chart.x, ...kinds.map(s => s.y), chart.x.map(() => 0)]);
});
