// Brings parts of a page up to date.  Everything works without this file as well.
"use strict";

(() => {
  const LIVE_MS = 5000;
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("recrawl", { createHTML: (html) => html })
    : { createHTML: (html) => html };

  // Only HTML that our own server has rendered and escaped comes here.
  function replaceContent(element, html) {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(html);
    element.replaceChildren(template.content);
  }

  async function fetchPart(url, signal) {
    const answer = await fetch(url, {
      credentials: "same-origin",
      headers: { "X-Recrawl-Live": "1" },
      redirect: "error",
      signal,
    });
    if (!answer.ok) throw Object.assign(new Error(answer.statusText), { status: answer.status });
    return answer.text();
  }

  function isInUse(element) {
    const selection = document.getSelection();
    const isSelected = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
    return isSelected || (element.contains(document.activeElement) && document.activeElement !== element);
  }

  // An element with data-live="/path" gets the HTML at that path every few seconds.
  function keepLive(element) {
    let shown = null;
    async function update() {
      if (document.hidden || isInUse(element)) return;
      try {
        const html = await fetchPart(element.dataset.live, AbortSignal.timeout(20000));
        if (html !== shown && !isInUse(element)) replaceContent(element, html);
        shown = html;
        element.classList.remove("stale");
      } catch (error) {
        if (error.status === 401) window.location.reload();
        element.classList.add("stale");
      }
    }
    let isRunning = false;
    async function run() {
      if (isRunning) return;
      isRunning = true;
      await update();
      isRunning = false;
    }
    window.setInterval(run, LIVE_MS);
    document.addEventListener("visibilitychange", run);
  }

  // An element with data-copy-of="#id" shows the text of another, one with data-value-of="#id" is
  // read aloud as it.
  function copyTexts(form) {
    for (const one of form.querySelectorAll("[data-copy-of]")) {
      const source = document.querySelector(one.dataset.copyOf);
      if (source) one.textContent = source.textContent;
    }
    for (const one of form.querySelectorAll("[data-value-of]")) {
      const source = document.querySelector(one.dataset.valueOf);
      if (source) one.setAttribute("aria-valuetext", source.textContent);
    }
  }

  // A form with data-answers="/path" and data-target="#id" shows the answer while you change it.
  function answerLive(form) {
    const target = document.querySelector(form.dataset.target);
    let timer = 0;
    let aborting = null;
    function show() {
      window.clearTimeout(timer);
      timer = window.setTimeout(async () => {
        if (aborting) aborting.abort();
        aborting = new AbortController();
        const query = new URLSearchParams(new FormData(form)).toString();
        target.setAttribute("aria-busy", "true");
        try {
          replaceContent(target, await fetchPart(`${form.dataset.answers}?${query}`, aborting.signal));
          target.removeAttribute("aria-busy");
          copyTexts(form);
          window.history.replaceState(null, "", `${window.location.pathname}?${query}`);
        } catch (error) {
          if (error.name !== "AbortError") target.removeAttribute("aria-busy");
          if (error.status === 401) window.location.reload();
        }
      }, 150);
    }
    form.addEventListener("input", show);
  }

  document.querySelectorAll("[data-live]").forEach(keepLive);
  document.querySelectorAll("form[data-answers]").forEach(answerLive);
})();
