"use strict";
// Draws the charts: curves is a list of {title, unit, x, log, best: [{x, color}], series: [{name, color, dash,
// x, y}]}, memory one of
// {title, x, at, series: [{name, color, bytes}]}.
const plots = [];
const short = (v, unit, digits) => v == null ? "" : +v.toPrecision(digits) + unit;

// The legend has the values below the pointer, and without one those of the points rest, by series.
function draw(box, title, x, unit, series, data, rest, log, best) {
  const options = {
    title, width: box.clientWidth, height: 280, scales: { x: { time: false }, y: log ? logarithmic : {} },
    axes: [{ ...axis, values: (u, all) => all.map(v => short(v, x.unit || "", 4)) }, { ...axis, size: 70, values: (u, all) => all.map(v => short(v, unit, 4)) }],
    series: [x, ...series],
    hooks: { drawClear: [plot => marks(plot, best || [])], setCursor: [plot => plot.cursor.idx == null && plot.setLegend({ idxs: rest })] },
  };
  const plot = new uPlot(options, data, box);
  plot.setLegend({ idxs: rest });
  plots.push(plot);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 280 })).observe(box);
}

// A line at each best epoch.
function marks(plot, best) {
  const { ctx, bbox } = plot;
  for (const { x, color } of best) {
    const at = Math.round(plot.valToPos(x, "x", true));
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.globalAlpha = 0.6;
    ctx.setLineDash([1, 3]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}

const charts = document.getElementById("charts");
for (const chart of curves || []) {
  const box = document.createElement("div"), data = uPlot.join(chart.series.map(s => [s.x, s.y]));
  charts.append(box);
  const value = (u, v) => short(v, chart.unit, 5) || "–";
  const x = chart.x ? { label: chart.x, unit: " %", value: (u, v) => short(v, " %", 4) || "–" } : { label: "epoch" };
  draw(box, chart.title, x, chart.unit,
    chart.series.map(s => ({ label: s.name, stroke: s.color, dash: s.dash, width: 1.5, spanGaps: true, value })),
    data, data.map(y => chart.x ? 0 : y.findLastIndex(v => v != null)), chart.log, chart.best);
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
    [chart.x, ...kinds.map(s => s.y), chart.x.map(() => 0)], Array(kinds.length + 2).fill(sum.indexOf(Math.max(...sum))));
});

// A table that goes on beyond an edge fades there, and a line below it says so.
for (const box of document.querySelectorAll(".wide")) {
  const hint = document.createElement("p");
  hint.className = "scrolls";
  hint.textContent = "↔ the table goes on: scroll it";
  box.after(hint);
  const look = () => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("before", box.scrollLeft > 1);
    box.classList.toggle("after", left > 1);
    box.tabIndex = box.scrollLeft + left > 1 ? 0 : -1;
  };
  box.addEventListener("scroll", look);
  new ResizeObserver(look).observe(box);
}
