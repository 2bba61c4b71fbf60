"use strict";
// The axes of all charts, in the colors of the page, and anew where it becomes light or dark. Whoever draws
// charts keeps them in plots.
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const axis = { stroke: () => color("--text"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { stroke: () => color("--line"), width: 1 } };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(plot => plot.redraw()));
// A loss falls by orders of magnitude. Ticks of a logarithmic axis are numbered where there is room.
const logarithmic = { distr: 3, log: 10 };
