"use strict";
// Draws the charts of a report: curves are a list of {title, unit, x, log, best: [{x, y, color}],
// series: [{name, part, color, dash, x, y, counts}]}, memory one of {title, x, at, series: [{name, color, bytes}]}.
const charts = document.getElementById("charts");
for (const chart of curves || []) {
  const box = element("div", "", charts), data = uPlot.join(chart.series.map(s => [s.x, s.y]));
  draw(box, {
    ...chart, data, alone: new Set(chart.series.map(s => s.name)).size == 1,
    x: chart.x ? { label: chart.x, unit: " %" } : { label: "epoch" },
    rest: chart.x ? null : data.map(y => y.findLastIndex(v => v != null)), dots: chart.x == "mean probability", shares: !!chart.x,
    series: chart.series.map(({ name, part, color, dash, x, counts }, k) => ({
      name, part, color, dash, counts,
      ...counts && { value: i => data[k + 1][i] == null ? "–" : `${short(data[k + 1][i], " %", 4)} of ${counts[x.indexOf(data[0][i])]}` },
    })),
  });
}

// Each kind is drawn from 0 to the sum of it and those below, the highest first.
const boxes = document.querySelectorAll(".memory");
(memory || []).forEach((chart, k) => {
  const sum = chart.x.map(() => 0), kinds = [];
  for (const s of chart.series) kinds.unshift({ ...s, y: s.bytes.map((b, i) => (sum[i] += b) / 1e6) });
  const series = kinds.map(s => ({ name: s.name, part: "", color: s.color, fill: s.color, width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }), value: i => short(s.bytes[i] / 1e6, " MB", 4) }));
  const where = { name: "at", part: "", color: "transparent", points: { show: false }, paths: () => null, value: i => chart.at[i] };
  const data = [chart.x, ...kinds.map(s => s.y), chart.x.map(() => 0)];
  draw(boxes[k], { title: chart.title, unit: " MB", x: { label: "time", unit: " ms" }, series: [...series, where], data, rest: data.map(() => sum.indexOf(Math.max(...sum))) });
});

// A run that is pointed at stands out in all charts.
function emphasize(name) {
  for (const plot of plots) {
    plot.series.forEach((s, k) => s.alpha = k == 0 || name == null || s.name == name ? 1 : .12);
    plot.redraw(false);
  }
}
for (const row of document.querySelectorAll("#runs [data-run], #charts [data-run]")) {
  row.addEventListener("pointerenter", () => emphasize(row.dataset.run));
  row.addEventListener("pointerleave", () => emphasize(null));
}

// A table that goes on beyond an edge fades there, and a line below it says so.
for (const box of document.querySelectorAll(".wide")) {
  const hint = element("p", "↔ the table goes on: scroll it");
  hint.className = "scrolls";
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
