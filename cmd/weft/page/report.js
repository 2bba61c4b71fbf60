"use strict";
// Draws each chart: curves is a list of {title, unit, series: [{name, color, dash, x, y}]}.
const text = getComputedStyle(document.body).color;
const line = getComputedStyle(document.documentElement).getPropertyValue("--line");
const charts = document.getElementById("charts");
for (const chart of curves) {
  const box = document.createElement("div");
  charts.append(box);
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const written = (u, v) => v == null ? "–" : +v.toPrecision(5) + chart.unit;
  const options = {
    title: chart.title, width: box.clientWidth, height: 280, scales: { x: { time: false } },
    axes: [axis, { ...axis, size: 70, values: (u, all) => all.map(v => v == null ? "" : +v.toPrecision(4) + chart.unit) }],
    series: [{ label: "epoch" }, ...chart.series.map(s => ({ label: s.name, stroke: s.color, dash: s.dash, width: 1.5, spanGaps: true, value: written }))],
  };
  const data = uPlot.join(chart.series.map(s => [s.x, s.y]));
  const plot = new uPlot(options, data, box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 280 })).observe(box);
}
