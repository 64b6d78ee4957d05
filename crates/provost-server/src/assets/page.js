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
  setInterval(() => { if (!document.hidden) { refresh(); } }, 5000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) { return; }
    await navigator.clipboard.writeText(button.dataset.copy);
    const words = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = words; }, 1500);
  });
})();
