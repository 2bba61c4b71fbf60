"use strict";
// Draws the epochs that /events sends. Beyond so many points one of two goes, rather that without metrics.
const mostPoints = 4000;
const dashes = [6, 4], dots = [2, 3];
const status = document.getElementById("status");
let share, points, best = 0, all = [], ended = false;

function begin(run) {
  ended = false;
  document.getElementById("run").textContent = run.name;
  document.getElementById("settings").textContent = run.about || "";
  for (const plot of all) plot.end();
  document.getElementById("charts").replaceChildren();
  share = run.share ? 100 : 1;
  const unit = run.share ? " %" : "";
  points = [];
  plots = [];
  all = [
    chart("loss", "", [["training", "loss", 1, 0, []], ["validation", "val_loss", 1, 1, dashes]]),
    chart(run.metric || "metric", unit, [["training", "train", share, 2, dots], ["validation", "val", share, 1, dashes], ["test", "test", share, 0, []]]),
    chart("seconds of an epoch", " s", [["", "seconds", 1, 0, []]]),
    chart("tensors of worker 0, at the peak", " MB", [["", "peak_bytes", 1e-6, 0, []]]),
  ];
}

// Draws the values of the epochs under some keys, each with its part, scale, color and dashes.
function chart(title, unit, series) {
  const box = element("div", "", document.getElementById("charts")), log = title == "loss";
  const shown = {
    title, unit, log, x: { label: "epoch" }, alone: true, best: [], data: [[], ...series.map(() => [])], rest: series.map(() => -1),
    series: series.map(([part, , , color, dash]) => ({ name: document.getElementById("run").textContent.split("/").at(-1), part, color, dash })),
  };
  const { plot, say, end } = draw(box, shown), marked = series.findIndex(([part]) => part == "validation");
  return {
    end,
    draw: () => {
      shown.data = [points.map(p => p.epoch), ...series.map(([, key, scale]) => points.map(p => p[key] == null || log && p[key] <= 0 ? null : p[key] * scale))];
      shown.rest = shown.data.map(y => y.findLastIndex(v => v != null));
      const values = shown.data[marked + 1], at = points.findLastIndex((p, k) => p.epoch <= best && values[k] != null);
      shown.best = marked < 0 || at < 0 ? [] : [{ x: best, y: values[at], color: shown.series[marked].color }];
      plot.setData(shown.data);
      say(plot.cursor.idx);
    },
  };
}

let drawing = false;
function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const plot of all) plot.draw();
  });
}

const events = new EventSource("events");
events.addEventListener("begin", e => begin(JSON.parse(e.data)));
events.addEventListener("epochs", e => {
  const sent = JSON.parse(e.data);
  points.push(...sent.points);
  best = sent.best;
  const measured = p => p && p.val !== undefined;
  while (points.length > mostPoints) {
    points = points.filter((p, k) => k == points.length - 1 || (k % 2 == 0 ? measured(p) || !measured(points[k + 1]) : measured(p) && !measured(points[k - 1])));
  }
  status.textContent = sent.status;
  redraw();
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
