// Keeps a page as the log is: asks for it again when something happened, and puts what came in its place.
"use strict";
(() => {
  const main = () => document.querySelector("main");
  const names = (document.body.dataset.events || "").split(" ").filter(Boolean);
  const state = document.querySelector("#live");
  let last = Number(document.body.dataset.after || 0);
  let source = null, asked = false, busy = false;

  // What somebody is about to write is never taken away.
  const isWritten = () =>
    [...main().querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue);

  const say = (text) => { if (state) { state.textContent = text; } };

  async function refresh() {
    if (busy) { asked = true; return; }
    busy = true;
    do {
      asked = false;
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const next = fresh.querySelector("main");
        if (!next || !answer.ok) { continue; }
        if (isWritten()) { say("changed: open the page again"); continue; }
        const open = new Set([...main().querySelectorAll("details[open][id]")].map((part) => part.id));
        const scroll = window.scrollY;
        for (const part of next.querySelectorAll("details[id]")) {
          if (open.has(part.id)) { part.open = true; }
        }
        const focus = document.activeElement && document.activeElement.id;
        main().replaceWith(document.adoptNode(next));
        const count = fresh.querySelector("#waiting");
        const shown = document.querySelector("#waiting");
        if (count && shown) { shown.textContent = count.textContent; }
        if (focus) { document.getElementById(focus)?.focus(); }
        window.scrollTo({ top: scroll });
        say("live");
      } catch { say("the server does not answer"); }
    } while (asked);
    busy = false;
  }

  function listen() {
    const wanted = new URLSearchParams(document.body.dataset.filter || "");
    wanted.set("after", String(last));
    source = new EventSource("/api/events?" + wanted);
    source.onopen = () => say("live");
    const heard = (event) => {
      last = Math.max(last, Number(event.lastEventId) || 0);
      refresh();
    };
    for (const name of names) { source.addEventListener(name, heard); }
    const again = () => {
      source.close();
      say("connecting");
      setTimeout(listen, 1000);
    };
    source.addEventListener("behind", again);
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) { again(); } else { say("connecting"); } };
  }

  if (document.body.dataset.after !== undefined) { listen(); }
})();
