/* The cards' values as they come each second, and their last two minutes as a small curve. */
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("cards");
  if (!box) return;
  let odd = false;

  function draw(spark, values) {
    let path = "", from = null;
    values.forEach((value, index) => {
      if (value === null) { if (from !== null) path += `L${index - 1},30Z`; from = null; return; }
      const y = (30 - Math.max(value, 1.5) * 0.29).toFixed(1);
      if (from === null) { path += `M${index},30L${index},${y}`; from = index; } else path += `L${index},${y}`;
    });
    if (from !== null) path += `L${values.length - 1},30Z`;
    spark.firstElementChild.setAttribute("d", path);
  }
  function drawAll() {
    for (const spark of box.querySelectorAll(".spark")) draw(spark, JSON.parse(spark.dataset.values));
  }
  const set = (card, field, text) => {
    const element = card.querySelector(`[data-f="${field}"]`);
    if (element && element.textContent !== text) element.textContent = text;
  };
  const bytes = (count) => {
    if (count === null) return "?";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (count >= 1024 && unit < 4) { count /= 1024; unit += 1; }
    return `${unit && count % 1 ? count.toFixed(1) : count.toFixed(0)} ${units[unit]}`;
  };

  anycard.on("cards", (tick) => {
    odd = !odd;
    const seen = new Map(tick.readings.map((reading) => [reading.card, reading]));
    for (const card of box.querySelectorAll("[data-card]")) {
      const now = seen.get(card.dataset.card);
      const spark = card.querySelector(".spark");
      if (odd) {  // the curve has a point each two seconds
        const values = JSON.parse(spark.dataset.values);
        while (values.length < 60) values.unshift(null);
        values.push(now && now.utilisation !== null ? Math.round(now.utilisation * 100) : null);
        spark.dataset.values = JSON.stringify(values.slice(-60));
        draw(spark, values.slice(-60));
      }
      if (!now) {  // nothing of before passes for now
        set(card, "utilisation", "?");
        set(card, "memory", "?");
        set(card, "temperature", "");
        set(card, "power", "");
        card.querySelector(".meter rect").setAttribute("width", "0");
        continue;
      }
      set(card, "utilisation", now.utilisation === null ? "?" : `${Math.round(now.utilisation * 100)} %`);
      const total = now.memory_total_bytes;
      set(card, "memory", bytes(now.memory_used_bytes));
      const share = now.memory_used_bytes !== null && total ? now.memory_used_bytes / total : 0;
      card.querySelector(".meter rect").setAttribute("width", (100 * share).toFixed(1));
      card.querySelector(".meter").classList.toggle("full", share > 0.95);
      set(card, "temperature", now.temperature_c === null ? "" : `${now.temperature_c.toFixed(0)} °C`);
      set(card, "power", now.power_w === null ? "" : `${now.power_w.toFixed(0)} W`);
    }
  });
  box.addEventListener("htmx:afterSwap", drawAll);
  drawAll();
});
