/* What every page does: times in the visitor's zone, keys, the one event stream, parts that are fetched again when something changed. */
"use strict";
(() => {
  const words = JSON.parse(document.getElementById("words").textContent);
  const pulse = document.getElementById("pulse");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";

  // ---- times ----
  const two = (n) => String(n).padStart(2, "0");
  function localTimes(root) {
    for (const element of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(element.dateTime);
      if (isNaN(at)) continue;
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
      element.textContent = at.toDateString() === new Date().toDateString() ? clock : `${day} ${clock}`;
      element.title = `${day} ${clock}:${two(at.getSeconds())} ${zone}`;
      element.dataset.local = "";
    }
  }

  // ---- the stream: one for all topics of the page, closed while nobody looks ----
  const handlers = new Map();
  let source = null, last = document.body.dataset.marks, retry = 0, wasLost = false;
  function topics() {
    const wanted = new Set(handlers.keys());
    for (const element of document.querySelectorAll("[data-topic]")) wanted.add(element.dataset.topic);
    return [...wanted].sort();
  }
  function on(topic, handler) {
    if (!handlers.has(topic)) handlers.set(topic, []);
    handlers.get(topic).push(handler);
  }
  function open() {
    close();
    const wanted = topics();
    if (!wanted.length || document.hidden) return;
    const query = new URLSearchParams({ topics: wanted.join(",") });
    if (last) query.set("last", last);
    source = new EventSource(`/page/stream?${query}`);
    for (const topic of wanted) source.addEventListener(topic, (event) => told(topic, event));
    source.onopen = () => { retry = 0; if (wasLost) say(words.back, 2000); wasLost = false; };
    source.onerror = () => {
      if (source && source.readyState !== EventSource.CLOSED) { lost(); return; }
      close();
      fetch("/page/session", { cache: "no-store" }).then((answer) => {
        if (answer.status === 401) { say(words.over); return; }
        again();
      }, () => { lost(); again(); });
    };
  }
  function again() { retry = Math.min(retry + 1, 5); setTimeout(open, 1000 * retry); }
  function lost() { wasLost = true; say(words.lost); }
  function close() { if (source) { source.close(); source = null; } }
  function told(topic, event) {
    if (event.lastEventId) last = event.lastEventId;
    const news = JSON.parse(event.data);
    for (const handler of handlers.get(topic) || []) handler(news);
    for (const element of document.querySelectorAll(`[data-topic="${CSS.escape(topic)}"][hx-get]`)) refresh(element);
  }
  function say(text, forMs) {
    pulse.textContent = text;
    if (forMs) setTimeout(() => { if (pulse.textContent === text) pulse.textContent = ""; }, forMs);
  }
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;  // come back to by the back button, as it was left
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    for (const button of document.querySelectorAll("form button.htmx-request")) button.classList.remove("htmx-request");
    open();
  });

  // ---- parts of a page, fetched again at most every two seconds ----
  const due = new WeakMap();
  const PACE_MS = 2000;
  function refresh(element) {
    if (due.has(element)) { due.get(element).again = true; return; }
    const turn = { again: false };
    due.set(element, turn);
    if (!element.contains(document.activeElement) || !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      htmx.trigger(element, "news");
    }
    setTimeout(() => { due.delete(element); if (turn.again && element.isConnected) refresh(element); }, PACE_MS);
  }

  // ---- keys ----
  let gone = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); } else location.href = "/jobs?find=1";
    } else if (event.key === "?") {
      document.getElementById("keys").showModal();
    } else if (event.key === "g") {
      gone = Date.now();
    } else if (Date.now() - gone < 1500) {
      gone = 0;
      const there = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (there) { event.preventDefault(); there.click(); }
    }
  });

  // ---- small helps ----
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
    if (event.target.matches("input[type=file][data-into]") && event.target.files[0]) {
      const file = event.target.files[0];
      file.text().then((text) => {
        document.getElementById(event.target.dataset.into).value = text;
        const name = document.getElementById(event.target.dataset.into + "-name");
        if (name) name.value = file.name;
      });
    }
  });
  document.addEventListener("submit", (event) => {
    const form = event.target, asked = form.dataset.ask;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset.sent || (asked && !confirm(asked))) { event.preventDefault(); return; }
    form.dataset.sent = "1";  // the second click of a double click sends nothing
    for (const button of form.querySelectorAll("button")) button.classList.add("htmx-request");
  });
  document.addEventListener("htmx:afterSwap", (event) => localTimes(event.target));
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) say(words.over);
  });
  window.anycard = { on, localTimes, words, refresh };
  document.addEventListener("DOMContentLoaded", () => {
    localTimes(document);
    if (new URLSearchParams(location.search).has("find")) document.querySelector("[data-search]")?.focus();
    setTimeout(open, 0);  // when every script of the page has said what it follows
  });
})();
