/* The log of a job's page: its end first, what comes live, what came before on demand, searched on the daemon's side. */
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const section = document.getElementById("log-section");
  if (!section) return;
  const words = JSON.parse(document.getElementById("log-words").textContent);
  const log = document.getElementById("log"), said = document.getElementById("log-said");
  const follow = document.getElementById("follow"), search = document.getElementById("find");
  const address = section.dataset.log;
  const fixed = section.dataset.attempt || "";
  const MOST_LINES = 20000;  // of what is on the page; what is older can be asked for again
  let first = null, attempt = null, open = null, hits = false, held = [];

  const query = (more) => {
    const all = new URLSearchParams(more);
    const number = fixed || attempt;
    if (number) all.set("attempt", number);
    return all.size ? `?${all}` : "";
  };
  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const shown = (lines) => {
    const all = document.createDocumentFragment();
    for (const [text, kind] of lines) {
      all.append(kind ? element("span", text, kind === 1 ? "bad" : "ours") : text, "\n");
    }
    return all;
  };
  const size = (bytes) => bytes < 1048576 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`;

  function earlierButton() {
    document.getElementById("earlier")?.remove();
    if (!first) return;
    const button = element("button", `↑ ${words.earlier} (${size(first)})`, "plain");
    button.id = "earlier";
    button.type = "button";
    button.onclick = earlier;
    log.prepend(button, "\n");
  }
  async function earlier() {
    const answer = await fetch(address + query({ before: first }));
    if (!answer.ok) return;
    const part = await answer.json();
    const height = log.scrollHeight, button = document.getElementById("earlier");
    button?.nextSibling?.remove();
    button?.remove();
    log.prepend(shown(part.lines));
    first = part.start;
    earlierButton();
    log.scrollTop += log.scrollHeight - height;
  }
  function add(part) {
    if (hits) { held.push(part); return; }
    if (attempt !== null && part.attempt !== attempt) {
      log.append(element("span", `── ${words.attempt.replace("{number}", part.attempt)} ──`, "ours"), "\n");
    }
    if (first === null) { first = part.start; log.replaceChildren(); }
    attempt = part.attempt;
    open?.remove();
    open = null;
    if (part.skipped > 0) log.append(element("span", `… ${words.skipped.replace("{size}", size(part.skipped))} …`, "ours"), "\n");
    log.append(shown(part.lines));
    if (part.open) { open = element("span", part.open); log.append(open); }
    while (log.childNodes.length > MOST_LINES * 2) log.firstChild.remove();
    if (follow.checked) log.scrollTop = log.scrollHeight;
  }
  log.addEventListener("scroll", () => {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    if (!atEnd && follow.checked && log.dataset.settled) follow.checked = false;
    else if (atEnd) follow.checked = true;
  });
  follow.addEventListener("change", () => { if (follow.checked) log.scrollTop = log.scrollHeight; });

  async function find(wanted) {
    if (!wanted) { back(); return; }
    said.textContent = "…";
    const answer = await fetch(`${address}/find${query({ q: wanted })}`);
    if (!answer.ok) { said.textContent = ""; return; }
    const found = await answer.json();
    if (!hits) { hits = true; log.keep = [...log.childNodes]; }
    log.replaceChildren();
    for (const [at, text] of found.hits) {
      const line = element("a", "", "hit");
      line.href = "#log-section";
      let rest = text, where;
      while ((where = rest.toLowerCase().indexOf(wanted.toLowerCase())) >= 0) {
        line.append(rest.slice(0, where), element("mark", rest.slice(where, where + wanted.length)));
        rest = rest.slice(where + wanted.length);
      }
      line.append(rest);
      line.onclick = (event) => { event.preventDefault(); around(at); };
      log.append(line);
    }
    said.textContent = !found.hits.length ? words.none
      : (found.more ? words.last_hits : words.hits).replace("{count}", found.hits.length);
    log.scrollTop = log.scrollHeight;
  }
  async function around(at) {
    const answer = await fetch(address + query({ after: at }));
    if (!answer.ok) return;
    const part = await answer.json();
    log.replaceChildren(shown(part.lines.length ? part.lines : [[part.open, 0]]));
    log.scrollTop = 0;
    if (log.firstChild) {
      const marked = element("mark", log.firstChild.textContent);
      log.firstChild.replaceWith(marked);
    }
    said.replaceChildren(element("button", words.back, "plain"));
    said.firstChild.onclick = () => { search.value = ""; back(); };
  }
  function back() {
    if (!hits) return;
    hits = false;
    said.textContent = "";
    log.replaceChildren(...(log.keep || []));
    for (const part of held.splice(0)) add(part);
    if (follow.checked) log.scrollTop = log.scrollHeight;
  }
  let typed = 0;
  search.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(() => find(search.value.trim()), 250); });
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; back(); log.focus(); } });
  document.getElementById("errors").addEventListener("click", () => { search.value = "error"; find("error"); });

  log.textContent = words.no_log;
  anycard.on(section.dataset.logTopic, (part) => {
    const empty = first === null;
    add(part);
    if (empty) {
      if (!part.size) log.textContent = words.empty;
      earlierButton();
      log.scrollTop = log.scrollHeight;
      setTimeout(() => { log.dataset.settled = "1"; }, 300);
    }
  });

  // The squares of the items change as the job goes on.
  const items = document.getElementById("items");
  if (items) {
    const job = items.dataset.job;
    anycard.on(`job:${job}`, (news) => {
      if (news.items === null) { htmx.ajax("GET", `/jobs/${job}/items${location.search}`, "#items"); return; }
      for (const [number, state] of news.items) {
        const square = items.querySelector(`[data-item="${number}"]`);
        if (!square) continue;
        square.className = `i-${state} fresh`;
        const name = words.states[state] || state;
        square.setAttribute("aria-label", `${number} ${name}`);
        square.title = `${number} · ${name}`;
      }
    });
  }
});
