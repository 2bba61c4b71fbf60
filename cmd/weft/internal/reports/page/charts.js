"use strict";
// What all charts share: axes, marks at best epochs, legends and colors of the page, anew where it becomes light
// or dark. A color is the number of one of the page's, or its own.
let plots = [];
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const ink = of => typeof of == "number" ? color("--c" + of) : of;
const short = (v, unit, digits) => v == null ? "–" : +v.toPrecision(digits) + unit;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(plot => plot.redraw()));

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text;
  parent?.append(made);
  return made;
}

// Ticks of a logarithmic axis: 1, 2 and 5 of each power of ten, and of a narrow range round numbers.
function ticks(u, axis, min, max) {
  const at = [];
  if (max / min > 8) {
    for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) {
      at.push(...(max / min > 2000 ? [1] : [1, 2, 5]).map(k => k * power).filter(v => v >= min && v <= max));
    }
    return at;
  }
  const least = (max - min) / 5, power = 10 ** Math.floor(Math.log10(least)), step = power * [1, 2, 5, 10].find(k => k * power >= least);
  for (let k = Math.ceil(min / step); k * step <= max; k++) at.push(k * step);
  return at;
}

// Draws a chart {title, unit, log, x: {label, unit}, best: [{x, y, color}], alone, data, rest,
// series: [{name, part, color, dash, width, …}]} into a box. rest are the points that the legend has the values
// of without a pointer, by series; null: it has none then. A chart that is alone has a line at its best epoch, and
// one with dots has one at each point, with the counts that a curve alone has there. Both axes of shares go from 0
// to 100.
function draw(box, chart) {
  const stroke = () => color("--text"), line = { stroke: () => color("--line"), width: 1 };
  const axis = { stroke, grid: line, ticks: { ...line, size: 5 }, font: "12px system-ui, sans-serif" };
  const y = chart.log ? { distr: 3, log: 10, range: (u, min, max) => min == null ? [1, 10] : [min / 1.15, max * 1.15] } : chart.shares ? { range: [0, 100] } : {};
  const size = () => ({ width: box.clientWidth, height: 240 });
  let say = () => {}; // until there is a legend
  element("h3", chart.title, box);
  const plot = new uPlot({
    ...size(), padding: [10, 24, 0, 0], scales: { x: { time: false, ...chart.shares && { range: [0, 100] } }, y }, legend: { show: false },
    axes: [{ ...axis, size: 32, values: (u, all) => all.map(v => short(v, chart.x.unit || "", 4)) },
      { ...axis, size: 64, values: (u, all) => all.map(v => short(v, chart.unit, 4)), ...chart.log && { splits: ticks, filter: (u, all) => all } }],
    series: [{}, ...chart.series.map(s => ({ width: 1.5, spanGaps: true, ...chart.data[0].length > 1 && !chart.dots && { points: { show: false } }, ...s, stroke: () => ink(s.color) }))],
    hooks: { draw: [plot => marks(plot, chart)], setCursor: [plot => say(plot.cursor.idx)] },
  }, chart.data, box);
  say = legend(box, chart);
  say();
  plots.push(plot);
  const resized = new ResizeObserver(() => plot.setSize(size()));
  resized.observe(box);
  return { plot, say, end: () => { resized.disconnect(); plot.destroy(); } };
}

// A ring at each best epoch and, where one run is alone, a line with words.
function marks(plot, chart) {
  const { ctx, bbox } = plot, dot = devicePixelRatio;
  ctx.save();
  for (const { x, y, color: of } of chart.best || []) {
    const at = plot.valToPos(x, "x", true);
    if (!(at >= bbox.left && at <= bbox.left + bbox.width)) continue;
    if (chart.alone) {
      ctx.strokeStyle = ctx.fillStyle = color("--soft");
      ctx.setLineDash([2 * dot, 3 * dot]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.font = `${11 * dot}px system-ui, sans-serif`;
      ctx.textAlign = at > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.fillText(`best epoch ${x}`, at + (ctx.textAlign == "left" ? 4 : -4) * dot, bbox.top + bbox.height - 6 * dot);
    }
    ctx.setLineDash([]);
    ctx.lineWidth = 2 * dot;
    ctx.strokeStyle = ink(of);
    ctx.fillStyle = color("--page");
    ctx.beginPath();
    ctx.arc(at, plot.valToPos(y, "y", true), 4 * dot, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
  if (chart.dots && chart.series.length == 1) counts(plot, chart.series[0].counts);
  ctx.restore();
}

// A count above each point, or below it at the top, where it fits beside the one before.
function counts(plot, all) {
  const { ctx, bbox } = plot, dot = devicePixelRatio;
  ctx.setLineDash([]);
  ctx.fillStyle = color("--text");
  ctx.strokeStyle = color("--page"); // so that a curve does not cross a number
  ctx.lineWidth = 3 * dot;
  ctx.font = `${11 * dot}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  let end = -Infinity;
  plot.data[0].forEach((x, i) => {
    const text = String(all[i]), half = ctx.measureText(text).width / 2;
    const at = Math.min(plot.valToPos(x, "x", true), bbox.left + bbox.width - half), y = plot.valToPos(plot.data[1][i], "y", true);
    if (at - half < end + 4 * dot) return;
    const base = y - 7 * dot < bbox.top + 11 * dot ? y + 16 * dot : y - 7 * dot;
    ctx.strokeText(text, at, base);
    ctx.fillText(text, at, base);
    end = at + half;
  });
}

// The legend has a row for each name and a column for each part, or without parts all names in a line. It returns
// what fills in the values at a point, or those at rest.
function legend(box, chart) {
  const table = element("table", "", box), parts = [...new Set(chart.series.map(s => s.part))], rows = new Map();
  table.className = parts.length > 1 ? "legend" : "legend inline";
  const head = element("tr", "", table), where = element("th", "", head);
  where.colSpan = parts.length > 1 ? 2 : 1;
  const cells = chart.series.map(s => {
    if (!rows.has(s.name)) {
      const row = element("tr", "", table), key = element("td", "", row);
      row.dataset.run = s.name;
      if (parts.length == 1 || !chart.alone) key.innerHTML = '<span class="key"></span>', key.firstChild.style.background = typeof s.color == "number" ? `var(--c${s.color})` : s.color;
      element("td", chart.alone && parts.length > 1 ? "" : s.name, row).className = "name";
      rows.set(s.name, parts.map(() => element("td", "", row)));
    }
    return rows.get(s.name)[parts.indexOf(s.part)];
  });
  if (parts.length > 1) {
    for (const part of parts) {
      const s = chart.series.find(s => s.part == part), th = element("th", "", head);
      th.innerHTML = `<svg width="28" height="8"><line x2="28" y1="4" y2="4" stroke="${chart.alone ? `var(--c${s.color})` : "currentColor"}" stroke-width="2" stroke-dasharray="${(s.dash || []).join(" ")}"/></svg> `;
      th.append(part);
    }
  }
  return at => {
    const rest = at == null ? chart.rest : chart.data.map(() => at), x = rest && chart.data[0][Math.max(...rest)];
    const ends = at == null && new Set(rest?.slice(1)).size > 1;
    where.textContent = ends ? "last values" : x == null ? "" : chart.x.label + " " + short(x, chart.x.unit || "", chart.x.unit ? 4 : 12);
    chart.series.forEach((s, k) => {
      const value = s.value || (i => short(chart.data[k + 1][i], chart.unit, chart.unit ? 4 : 5));
      cells[k].textContent = rest ? value(rest[k + 1]) : "";
    });
  };
}
