/* The doctor's page: files that are dropped or chosen go as they are (long texts packed), and commands can be copied. */
"use strict";
(() => {
  const PACK_BYTES = 4 * 1024 * 1024;
  const answer = document.getElementById("diagnosis");
  const stop = document.getElementById("stop");
  let sending = null;

  async function send(file, address) {
    if (sending) sending.abort();
    sending = new AbortController();
    const own = sending;
    stop.hidden = false;
    answer.textContent = answer.dataset.busy.replace("{name}", file.name);
    try {
      const token = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRF-Token"];
      const body = await packed(file);
      const got = await fetch(address, { method: "POST", body, headers: { "X-CSRF-Token": token }, signal: own.signal });
      const type = got.headers.get("Content-Type") || "";
      if (!type.startsWith("text/html")) throw new Error(String(got.status));
      const part = new DOMParser().parseFromString(await got.text(), "text/html");
      answer.replaceChildren(...(part.querySelector("main") || part.body).childNodes);
      answer.focus();
    } catch (error) {
      if (sending === own) answer.textContent = error.name === "AbortError" ? "" : answer.dataset.failed.replace("{why}", error.message);
    } finally {
      if (sending === own) { sending = null; stop.hidden = true; }
    }
  }

  /* A log of 100 MB is a tenth of it packed; what is packed already is left as it is. */
  async function packed(file) {
    if (file.size < PACK_BYTES || typeof CompressionStream === "undefined") return file;
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    if (head[0] === 0x1f && head[1] === 0x8b) return file;
    return new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
  }

  for (const zone of document.querySelectorAll("[data-drop]")) {
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      const file = event.dataTransfer.files[0];
      if (!file) return;  // dropped text goes into the field
      event.preventDefault();
      zone.classList.remove("over");
      send(file, zone.dataset.drop);
    });
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("input[type=file][data-send]") && event.target.files[0]) {
      send(event.target.files[0], event.target.dataset.send);
      event.target.value = "";
    }
  });
  if (stop) stop.addEventListener("click", () => { if (sending) sending.abort(); });

  const words = JSON.parse(document.getElementById("doctor-words").textContent);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const before = button.textContent;
    navigator.clipboard.writeText(button.dataset.copy).then(() => {
      button.textContent = words.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    }, () => getSelection().selectAllChildren(button.previousElementSibling));  // then Ctrl-C does it
  });
})();
