/* Plots: readings over time with a shared time axis, gaps as gaps, capacity as a line, events as marks. */
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("charts");
  if (!box || !window.uPlot) return;
  const words = JSON.parse(document.getElementById("chart-words").textContent);
  const GIB = 1073741824;
  const COLOURS = ["#3b82e0", "#d1813f", "#2da44e", "#b05fd0", "#c9a227", "#d1478a", "#3aa6a6", "#8a8f98"];
  const KINDS = [
    { key: "utilisation", title: words.utilisation, unit: "%", scale: (v) => v * 100, range: [0, 100] },
    { key: "memory_used_bytes", title: words.memory, unit: "GiB", scale: (v) => v / GIB, cap: "memory_total_bytes" },
    { key: "temperature_c", title: words.temperature, unit: "°C", scale: (v) => v },
    { key: "power_w", title: words.power, unit: "W", scale: (v) => v, cap: "power_limit_w" },
  ];
  let plots = [];

  async function draw() {
    const answer = await fetch(box.dataset.address, { cache: "no-store" });
    if (!answer.ok) { box.textContent = words.none; return; }
    const told = await answer.json();
    for (const plot of plots) plot.destroy();
    plots = [];
    box.replaceChildren();
    const cards = told.cards.filter((card) => card.times.length);
    if (!cards.length) { box.textContent = words.none; return; }
    const since = Date.parse(told.since) / 1000, until = Date.parse(told.until) / 1000;
    for (const kind of KINDS) plot(kind, cards, told, since, until);
  }

  /* All cards on one time axis; where a card has no row for longer than a few steps, null breaks its line. */
  function aligned(kind, cards, step) {
    const all = new Set();
    const rows = cards.map((card) => {
      const row = new Map();
      card.times.forEach((at, index) => {
        const value = card[kind.key][index];
        row.set(at, value === null ? null : kind.scale(value));
        all.add(at);
        if (index && at - card.times[index - 1] > step * 2.5) { row.set(card.times[index - 1] + step, null); all.add(card.times[index - 1] + step); }
      });
      return row;
    });
    const times = [...all].sort((a, b) => a - b);
    return [times, ...rows.map((row) => times.map((at) => row.get(at)))];
  }

  function plot(kind, cards, told, since, until) {
    const shown = cards.filter((card) => card[kind.key]);
    if (!shown.length) return;
    const style = getComputedStyle(document.body);
    const soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
    const data = aligned(kind, shown, told.step_s);
    const caps = kind.cap ? [...new Set(shown.flatMap((card) => card[kind.cap] ? [card[kind.cap].findLast((v) => v !== null)] : []))].filter(Boolean).map(kind.scale) : [];
    const seconds = until - since < 1200, days = until - since > 2 * 86400;
    const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });
    const day = (at) => new Date(at * 1000).toLocaleDateString(undefined, { month: "numeric", day: "numeric" });
    const ticks = (u, splits) => splits.map((at) => days ? day(at) : clock(at));
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const holder = document.createElement("div");
    holder.className = "chart";
    holder.setAttribute("role", "img");
    const last = shown.map((card) => `${card.card} ${format(latest(data[shown.indexOf(card) + 1]), kind)}`).join(", ");
    holder.setAttribute("aria-label", `${kind.title}: ${last}`);
    box.append(holder);
    const made = new uPlot({
      title: `${kind.title} (${kind.unit})`,
      width: Math.max(280, holder.clientWidth), height: 170,
      cursor: { sync: { key: "time" }, drag: { x: true, y: false } },
      scales: {
        x: { min: since, max: until },
        y: kind.range ? { range: kind.range } : { range: (u, low, high) => [0, Math.max(high || 0, ...caps, 1) * 1.08] },
      },
      axes: [{ ...axis, values: ticks, space: 90, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 345600, 604800] }, { ...axis, size: 46 }],
      series: [{ label: words.time, value: (u, v) => v == null ? words.latest : new Date(v * 1000).toLocaleString() }, ...shown.map((card, index) => ({
        label: card.card, stroke: COLOURS[index % COLOURS.length], width: 1.5, dash: index >= COLOURS.length ? [5, 3] : undefined,
        value: (u, v) => format(u.cursor.idx == null ? latest(u.data[index + 1]) : v, kind), points: { show: data[0].length < 40 },
      }))],
      hooks: { draw: [(u) => extras(u, caps, told.marks, style)] },
    }, data, holder);
    plots.push(made);
  }
  const latest = (values) => values.findLast((value) => value != null);
  const format = (value, kind) => value == null ? "?" : `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${kind.unit}`;

  function extras(u, caps, marks, style) {
    const { ctx } = u, { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.setLineDash([4, 4]);
    ctx.strokeStyle = style.getPropertyValue("--warn-fill");
    for (const cap of caps) {
      const y = u.valToPos(cap, "y", true);
      if (y >= top && y <= top + height) { ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke(); }
    }
    ctx.setLineDash([]);
    ctx.strokeStyle = ctx.fillStyle = style.getPropertyValue("--bad-fill");
    for (const mark of marks) {
      const x = u.valToPos(Date.parse(mark.at) / 1000, "x", true);
      if (x < left || x > left + width) continue;
      ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, top + height); ctx.stroke();
      ctx.beginPath(); ctx.moveTo(x - 4, top); ctx.lineTo(x + 4, top); ctx.lineTo(x, top + 7); ctx.fill();
    }
    ctx.restore();
  }

  draw();
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => plots.forEach((p) => p.setSize({ width: p.root.parentElement.clientWidth, height: 170 })), 120); });
  const again = Number(box.dataset.again || 0);
  if (again) setInterval(() => { if (!document.hidden) draw(); }, again * 1000);
});
