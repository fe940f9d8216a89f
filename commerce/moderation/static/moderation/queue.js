// The queue by keyboard. Everything here is also a form or a link of the page, which works without this script.
// A decision shows the next item at once, while the server is told behind it; what did not count is said and comes back.
"use strict";

(() => {
  const root = document.getElementById("moderation");
  const rows = document.getElementById("rows");
  const pane = document.getElementById("item");
  const outcome = document.getElementById("outcome");
  const keys = document.getElementById("keys");
  const CLAIM_AGAIN_MS = 120_000;
  const MORE_WHEN_LEFT = 6;
  const KEYS_OFF = "moderation-keys-off";
  const ahead = new Map(); // case id -> promise of its part of the page
  const made = []; // this page's decisions, the last one last: promises of their answers
  let turn = Promise.resolve(); // decisions reach the server in the order they were made
  let isLoadingMore = false, isAllLoaded = false;

  const urlOf = (name, id) => root.dataset[name].replace("/0/", `/${id}/`);
  const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;
  const rowOf = (id) => rows.querySelector(`[data-case="${id}"]`);
  const shownId = () => pane.querySelector("[data-case]")?.dataset.case;
  const isOpen = (row) => !row.hasAttribute("data-decided");
  const isNarrow = () => window.matchMedia("(max-width: 1023px)").matches;

  function say(words, undoUrl) {
    outcome.replaceChildren(words);
    if (!undoUrl) return;
    const button = document.createElement("button");
    button.className = "mod-button";
    button.textContent = root.dataset.undone;
    button.addEventListener("click", undo);
    outcome.append(" ", button);
  }

  async function post(url, fields) {
    const body = new URLSearchParams(fields);
    body.set("csrfmiddlewaretoken", token());
    try {
      const answer = await fetch(url, { method: "POST", body, headers: { Accept: "application/json" } });
      if (answer.status === 204) return {};
      const isJson = (answer.headers.get("Content-Type") || "").startsWith("application/json");
      const told = isJson ? await answer.json() : {};
      return answer.ok && isJson ? told : { ...told, outcome: told.outcome || root.dataset.failed, refused: true };
    } catch {
      return { outcome: root.dataset.failed, refused: true };
    }
  }

  async function fetchPart(id) {
    const answer = await fetch(urlOf("partUrl", id));
    if (!answer.ok || answer.redirected) throw new Error(root.dataset.failed);
    return answer.text();
  }

  function lookAhead(id) {
    if (id && !ahead.has(id)) ahead.set(id, fetchPart(id).catch(() => { ahead.delete(id); return null; }));
  }

  async function show(id, { takesFocus = true, isNew = true } = {}) {
    leave();
    const waiting = ahead.get(id) || fetchPart(id).catch(() => null);
    ahead.delete(id);
    mark(id);
    pane.dataset.wanted = id;
    pane.setAttribute("aria-busy", "true");
    const part = await waiting;
    if (pane.dataset.wanted !== id) return;
    pane.removeAttribute("aria-busy");
    if (part === null) return say(root.dataset.failed);
    pane.innerHTML = part; // made by our own templates, which escape what people wrote
    root.classList.add("mod-shows-item");
    const address = new URL(location.href);
    address.searchParams.set("item", id);
    address.searchParams.delete("done");
    history[isNew && isNarrow() ? "pushState" : "replaceState"]({ id }, "", address);
    if (takesFocus) focusTitle();
    arrive(id);
  }

  function focusTitle() {
    document.getElementById("item-title")?.focus({ preventScroll: true });
    (isNarrow() ? window : pane).scrollTo({ top: 0 });
  }

  function mark(id) {
    rows.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const row = rowOf(id);
    row?.setAttribute("aria-current", "true");
    row?.scrollIntoView({ block: "nearest" });
  }

  async function arrive(id) {
    for (const button of pane.querySelectorAll("[data-take]")) button.hidden = false;
    lookAhead(nextId(id));
    loadMore();
    if (!pane.querySelector("[data-waiting='1']")) return;
    const told = await post(urlOf("claimUrl", id), {});
    const line = pane.querySelector(`[data-case="${id}"] [data-told]`);
    if (!line) return;
    line.textContent = told.told || "";
    line.hidden = !told.told;
  }

  function leave() {
    const id = shownId();
    if (!id || !pane.querySelector("[data-waiting='1']")) return;
    const body = new URLSearchParams({ csrfmiddlewaretoken: token() });
    navigator.sendBeacon(urlOf("releaseUrl", id), body);
  }

  function nextId(id, step = 1) {
    const all = [...rows.querySelectorAll("[data-case]")];
    const at = all.findIndex((row) => row.dataset.case === id);
    const rest = step > 0 ? all.slice(at + 1) : all.slice(0, Math.max(at, 0)).reverse();
    return rest.find(isOpen)?.dataset.case;
  }

  function go(step) {
    const id = nextId(shownId() || "", step);
    if (id) show(id);
    return Boolean(id);
  }

  async function loadMore() {
    const left = [...rows.querySelectorAll("[data-case]")].filter(isOpen).length;
    if (isLoadingMore || isAllLoaded || left > MORE_WHEN_LEFT) return;
    isLoadingMore = true;
    await turn;
    const address = new URL(location.href);
    address.searchParams.delete("item");
    address.searchParams.set("part", "rows");
    const kept = [...rows.querySelectorAll("[data-case]")].filter((row) => isOpen(row) || row.dataset.waits).length;
    address.searchParams.set("start", Number(rows.dataset.start) + kept);
    try {
      const answer = await fetch(address);
      const found = new DOMParser().parseFromString(answer.ok && !answer.redirected ? await answer.text() : "", "text/html");
      const fresh = [...found.querySelectorAll("[data-case]")].filter((row) => !rowOf(row.dataset.case));
      rows.append(...fresh);
      isAllLoaded = answer.ok && fresh.length === 0;
    } catch { /* the next item tries again */ }
    isLoadingMore = false;
    lookAhead(nextId(shownId() || ""));
  }

  function decide(form, button) {
    const id = shownId();
    const row = rowOf(id);
    if (row && !isOpen(row)) return;
    const fields = new FormData(form);
    fields.set("action", button.value);
    row?.setAttribute("data-decided", "");
    // Not `form.action`: that is what a button of this name is called by.
    const sent = (turn = turn.then(() => post(form.getAttribute("action"), fields)));
    made.push(sent);
    sent.then((told) => finish(id, told, sent));
    pane.querySelector("[data-waiting]")?.setAttribute("data-waiting", "");
    const following = nextId(id) || nextId("");
    if (following) show(following);
    else sent.then(() => { if (shownId() === id) afterLast(id); });
  }

  async function afterLast(id) {
    isAllLoaded = false;
    await loadMore();
    const following = nextId("");
    if (following) return show(following);
    show(id);
    document.getElementById("empty").hidden = false;
    document.getElementById("empty").textContent = root.dataset.empty;
  }

  function finish(id, told, sent) {
    const row = rowOf(id);
    const badge = row?.querySelector(".mod-outcome-badge");
    if (badge) {
      badge.textContent = told.outcome;
      badge.hidden = false;
      badge.classList.toggle("mod-danger", Boolean(told.refused));
    }
    if (told.refused) {
      if (made.includes(sent)) made.splice(made.indexOf(sent), 1); // it is not there if it is being undone
      ahead.delete(id);
      if (row && !told.case) row.removeAttribute("data-decided"); // the server never got it
      return say(told.outcome);
    }
    if (row && told.is_waiting) row.dataset.waits = "1";
    say(`${told.outcome}.`, told.undo);
    count(told.is_waiting ? 0 : -1);
  }

  async function undo() {
    const last = made.pop();
    if (!last) return say(root.dataset.nothing);
    const decided = await last;
    if (decided.refused) return; // there is nothing to undo, as it was said
    const told = await post(decided.undo, {});
    say(told.outcome);
    if (told.refused) return;
    const row = rowOf(String(decided.case));
    row?.removeAttribute("data-decided");
    const badge = row?.querySelector(".mod-outcome-badge");
    if (badge) badge.hidden = true;
    count(decided.is_waiting ? 0 : 1);
    ahead.delete(String(decided.case));
    show(String(decided.case));
  }

  function count(change) {
    const title = document.getElementById("list-title");
    title.textContent = title.textContent.replace(/^(\s*)(\d+)(?!\d*[,.]\d)/, (_all, space, number) => space + Math.max(Number(number) + change, 0));
  }

  function press(event) {
    const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
    if (event.key === "Escape" && isTyping && !event.target.closest("dialog")) return event.target.blur();
    if (event.key === "Enter" && event.ctrlKey && event.target.closest("[data-decide]")) return event.target.blur();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === "?") return keys.showModal();
    if (localStorage.getItem(KEYS_OFF)) return;
    const deed = {
      j: () => go(1), n: () => go(1), k: () => go(-1), u: undo,
      x: () => rowOf(shownId())?.querySelector("input").click(),
      m: () => document.getElementById("reason")?.focus(),
      "/": () => document.getElementById("id_search").focus(),
    }[event.key];
    const button = pane.hasAttribute("aria-busy") ? null : pane.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!deed && !button) return;
    event.preventDefault();
    if (deed) deed();
    else button.click();
  }

  rows.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(link.closest("[data-case]").dataset.case);
  });
  pane.addEventListener("submit", (event) => {
    if (event.target.matches("[data-decide]")) {
      event.preventDefault();
      decide(event.target, event.submitter);
    } else if (event.target.matches("[data-undo]")) {
      event.preventDefault();
      const id = Number(shownId());
      made.push(Promise.resolve({ undo: event.target.getAttribute("action"), case: id, is_waiting: false }));
      undo();
    }
  });
  pane.addEventListener("click", (event) => {
    const taken = event.target.closest("[data-take]");
    if (taken) return take(taken);
    if (!event.target.closest("[data-back]") || !isNarrow()) return;
    event.preventDefault();
    toList();
  });
  // Nothing is decided by it: the form is filled, and the button of the verdict has the focus.
  function take(button) {
    const template = document.getElementById("template");
    const isTyped = document.getElementById("reason")?.value.trim();
    if (template && button.dataset.template && !isTyped) {
      template.value = button.dataset.template;
      template.dispatchEvent(new Event("change", { bubbles: true }));
    }
    pane.querySelector(`[data-decide] [value="${button.dataset.take}"][data-key]`)?.focus();
  }
  function toList() {
    root.classList.remove("mod-shows-item");
    const address = new URL(location.href);
    address.searchParams.delete("item");
    history.replaceState({}, "", address);
    rows.querySelector("[aria-current] a")?.focus();
  }
  window.addEventListener("popstate", () => {
    const id = new URL(location.href).searchParams.get("item");
    if (id) show(id, { isNew: false });
    else toList();
  });
  // A chosen template fills the field beside it, where the moderator can still change it.
  root.addEventListener("change", (event) => {
    const field = document.getElementById(event.target.dataset.fills || "");
    if (field) field.value = event.target.selectedOptions[0].dataset.text || "";
  });
  window.addEventListener("pagehide", leave);
  document.addEventListener("keydown", press);

  const panes = document.getElementById("panes");
  const fit = () => panes.style.setProperty("--top", `${panes.getBoundingClientRect().top + window.scrollY}px`);
  const filters = document.getElementById("filters");
  if (isNarrow() && !("used" in filters.dataset)) filters.open = false;
  window.addEventListener("resize", fit);
  fit();

  const help = document.getElementById("help");
  help.hidden = false;
  help.addEventListener("click", () => keys.showModal());
  const isOn = document.getElementById("keys-on");
  isOn.checked = !localStorage.getItem(KEYS_OFF);
  isOn.addEventListener("change", () => {
    if (isOn.checked) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "1");
  });
  const chooseAll = document.getElementById("choose-all");
  if (chooseAll) {
    chooseAll.hidden = false;
    chooseAll.addEventListener("click", () => {
      const boxes = [...rows.querySelectorAll("[data-case]:not([data-decided]) input[type=checkbox]")];
      const choose = boxes.some((box) => !box.checked);
      for (const box of boxes) box.checked = choose;
    });
  }
  if (shownId() && !(isNarrow() && !root.classList.contains("mod-shows-item"))) arrive(shownId());
  setInterval(() => { if (!document.hidden && shownId()) arrive(shownId()); }, CLAIM_AGAIN_MS);
})();
