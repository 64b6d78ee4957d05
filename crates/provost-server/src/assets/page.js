// Small comforts of a page: times stay true, text is copied, lists are filtered and walked by keys. Every page is
// complete without it.
"use strict";
(() => {
  // The same words as `pages/times.rs`.
  const ago = (at, now) => {
    const seconds = Math.floor(Math.abs(now - at) / 1000);
    if (seconds < 5) { return "now"; }
    const words = seconds < 60 ? `${seconds} s`
      : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
      : seconds < 86400 ? `${Math.floor(seconds / 3600)} h`
      : `${Math.floor(seconds / 86400)} d`;
    return at > now ? `in ${words}` : `${words} ago`;
  };
  const refresh = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const words = ago(Date.parse(time.dateTime), Date.now());
      if (time.textContent !== words) { time.textContent = words; }
    }
  };
  document.documentElement.classList.add("js");
  setInterval(() => { if (!document.hidden) { refresh(); } }, 5000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) { return; }
    await navigator.clipboard.writeText(button.dataset.copy);
    const words = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = words; }, 1500);
  });

  // The graph fits its place; larger and smaller change the size of the picture.
  document.addEventListener("click", (event) => {
    const how = event.target.closest("button[data-zoom]")?.dataset.zoom;
    const svg = how && document.querySelector(".graph svg");
    if (!svg) { return; }
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const room = svg.parentElement, now = svg.getBoundingClientRect().width / width;
    const scale = how === "fit" ? Math.min(room.clientWidth / width, room.clientHeight / height, 1) : now * (how === "in" ? 1.3 : 1 / 1.3);
    svg.classList.add("zoomed");
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
  });

  // The map of a large graph: a click scrolls there, and a frame shows what is in sight.
  const frame = () => {
    const room = document.querySelector(".graph"), pane = document.querySelector(".map .window");
    if (!room || !pane) { return; }
    const part = pane.ownerSVGElement.height.baseVal.value / room.scrollHeight;
    pane.setAttribute("y", room.scrollTop * part);
    pane.setAttribute("height", room.clientHeight * part);
  };
  document.addEventListener("scroll", (event) => { if (event.target.classList?.contains("graph")) { frame(); } }, true);
  addEventListener("resize", frame);
  new MutationObserver(frame).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".map a"), room = document.querySelector(".graph");
    if (!link || !room) { return; }
    event.preventDefault();
    const map = link.ownerSVGElement.getBoundingClientRect();
    const at = event.clientY ? (event.clientY - map.top) / map.height : link.getBBox().y / map.height;
    room.scrollTo({ top: at * room.scrollHeight - room.clientHeight / 2 });
  });
  frame();

  // Filters as you type: the server filters, and the URL keeps the filter.
  const form = document.querySelector("form[data-search]");
  let asked = 0;
  const filter = async () => {
    const form = document.querySelector("form[data-search]");
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(fields).toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
    const own = ++asked;
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (own !== asked || !answer.ok) { return; }
    const next = fresh.querySelector(form.dataset.search);
    if (next) { document.querySelector(form.dataset.search).replaceWith(next); }
    const [main, other] = [document.querySelector("main"), fresh.querySelector("main")];
    Object.assign(main.dataset, { version: other.dataset.version, frame: other.dataset.frame });
  };
  if (form) {
    let timer = 0;
    document.addEventListener("input", (event) => {
      if (!event.target.closest("form[data-search]")) { return; }
      clearTimeout(timer);
      timer = setTimeout(() => filter().catch(() => {}), 120);
    });
  }

  // Keys: j and k walk through a list, / filters, ? lists the keys.
  const rows = () => [...document.querySelectorAll("[data-row]")];
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) { typing.blur(); }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.key === "j" || event.key === "k") {
      const all = rows(), at = all.indexOf(document.activeElement);
      const to = event.key === "j" ? Math.min(at + 1, all.length - 1) : Math.max(at - 1, 0);
      all[to]?.focus();
      all[to]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "/") {
      const field = document.querySelector("form[data-search] input, input[type=search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (event.key === "?") {
      document.querySelector("#keys")?.showModal();
    }
  });
})();
