"use strict";
// Draws the epochs that /events sends. Beyond so many points one of two goes, rather that without metrics.
const mostPoints = 4000;
const status = document.getElementById("status");
const number = (v, unit) => v == null ? "–" : +v.toPrecision(5) + unit;
let share, points, plots = [], ended = false;

function begin(run) {
  ended = false;
  document.getElementById("run").textContent = run.name;
  document.getElementById("settings").textContent = run.about || "";
  for (const plot of plots) plot.end();
  document.getElementById("charts").replaceChildren();
  share = run.share ? 100 : 1;
  const unit = run.share ? " %" : "";
  points = [];
  plots = [
    chart("loss", "", [["training", "loss", "#0072b2", 1], ["validation", "val_loss", "#d55e00", 1]]),
    chart(run.metric || "metric", unit, [["training", "train", "#0072b2", share], ["validation", "val", "#d55e00", share], ["test", "test", "#009e73", share]]),
    chart("seconds of an epoch", " s", [["seconds", "seconds", "#0072b2", 1]]),
    chart("tensors of worker 0, at the peak", " MB", [["tensors", "peak_bytes", "#0072b2", 1e-6]]),
  ];
}

function chart(title, unit, series) {
  const box = document.createElement("div");
  document.getElementById("charts").append(box);
  const plot = new uPlot({
    title, width: box.clientWidth, height: 280, scales: { x: { time: false }, y: title == "loss" ? logarithmic : {} },
    hooks: { setCursor: [plot => plot.cursor.idx == null && rest(plot)] },
    axes: [axis, { ...axis, size: 70, values: (u, all) => all.map(v => number(v, unit)) }],
    series: [{ label: "epoch" }, ...series.map(([label, , stroke]) => ({ label, stroke, width: 1.5, spanGaps: true, value: (u, v) => number(v, unit) }))],
  }, [[], ...series.map(() => [])], box);
  const resized = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 280 }));
  resized.observe(box);
  return {
    draw: () => {
      plot.setData([points.map(p => p.epoch), ...series.map(([, key, , scale]) => points.map(p => p[key] == null || title == "loss" && p[key] <= 0 ? null : p[key] * scale))]);
      if (plot.cursor.idx == null) rest(plot);
    },
    redraw: () => plot.redraw(),
    end: () => { resized.disconnect(); plot.destroy(); },
  };
}

// Without a pointer the legend has the last values of the curves.
function rest(plot) {
  if (plot.data[0].length > 0) plot.setLegend({ idxs: plot.data.map(y => y.findLastIndex(v => v != null)) });
}

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const plot of plots) plot.draw();
  });
}

const events = new EventSource("events");
events.addEventListener("begin", e => begin(JSON.parse(e.data)));
events.addEventListener("epochs", e => {
  const sent = JSON.parse(e.data);
  points.push(...sent.points);
  const measured = p => p && p.val !== undefined;
  while (points.length > mostPoints) {
    points = points.filter((p, k) => k == points.length - 1 || (k % 2 == 0 ? measured(p) || !measured(points[k + 1]) : measured(p) && !measured(points[k - 1])));
  }
  status.textContent = sent.status;
  draw();
});
events.addEventListener("end", e => {
  status.textContent = JSON.parse(e.data);
  ended = true; // of several runs the next one may begin
});
events.onerror = () => {
  if (ended) events.close();
  else if (events.readyState == EventSource.CLOSED) status.textContent = "too many browsers show this run: close one, and load this page again";
  else status.textContent = "the run does not answer: it has ended, or goes on without this page";
};
