"use strict";
// The axes of all charts, in the colors of the page, and anew where it becomes light or dark. Whoever draws
// charts keeps them in plots.
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const axis = { stroke: () => color("--text"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { stroke: () => color("--line"), width: 1 } };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(plot => plot.redraw()));
