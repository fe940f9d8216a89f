// Description writer of the product form: requests a description and shows it as it is written. Texts of users and
// models are only ever set as values or text content, never parsed as HTML.
"use strict";

(() => {
  const panel = document.getElementById("description-writer");
  const description = document.getElementById("id_description");
  if (!panel || !description) return;
  const element = (name) => document.getElementById(`writer-${name}`);
  const [write, stop, status, result, text, use, discard] =
    ["write", "stop", "status", "result", "text", "use", "discard"].map(element);
  let draftId = null; // id of the shown draft, once its text is complete
  let request = null; // an AbortController while a text is written

  const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;
  const buildUrl = (name, id) => panel.dataset[name].replace("/0/", `/${id}/`);

  function showStatus(message, isError = false) {
    status.textContent = message;
    status.classList.toggle("writer-wrong", isError);
  }

  function show({ isWriting = false, id = null } = {}) {
    draftId = id;
    write.disabled = isWriting;
    stop.hidden = !isWriting;
    text.readOnly = id === null;
    text.setAttribute("aria-busy", String(isWriting));
    use.hidden = discard.hidden = id === null;
  }

  async function post(url, fields, signal) {
    const body = new URLSearchParams({ ...fields, csrfmiddlewaretoken: token() });
    return fetch(url, { method: "POST", body, signal, headers: { Accept: "application/json" } });
  }

  async function errorMessage(response) {
    const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
    return (isJson && (await response.json()).message) || panel.dataset.failed;
  }

  async function* readEvents(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (buffer + value).split("\n\n");
      buffer = events.pop();
      for (const event of events) if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }

  async function start() {
    if (request) return;
    request = new AbortController();
    text.value = "";
    result.hidden = false;
    show({ isWriting: true });
    stop.focus();
    showStatus(panel.dataset.writing);
    try {
      await read(request.signal);
    } catch {
      show();
      showStatus(request.signal.aborted ? panel.dataset.stopped : panel.dataset.cut, !request.signal.aborted);
    }
    request = null;
    if (draftId === null) return write.focus();
    text.focus({ preventScroll: true });
    use.scrollIntoView({ block: "center" }); // the buttons at the bottom of the page would cover it
  }

  async function read(signal) {
    const options = {
      tone: element("tone").value, max_words: element("words").value,
      language: element("language").value, keywords: element("keywords").value,
    };
    const response = await post(panel.dataset.writeUrl, options, signal);
    if (!response.ok || response.redirected) {
      const message = await errorMessage(response);
      result.hidden = true;
      show();
      return showStatus(message, true);
    }
    for await (const event of readEvents(response)) {
      if (event.error) break;
      if (event.done) return finish(event);
      text.value += event.text;
      text.scrollTop = text.scrollHeight;
    }
    throw new Error("not complete");
  }

  function finish(event) {
    text.value = event.description;
    show({ id: event.draft_id });
    showStatus(panel.dataset.ready);
    if (event.left !== null) element("left").textContent = panel.dataset.left.replace("#", event.left);
  }

  async function decide(url, fields) {
    use.disabled = discard.disabled = true;
    try {
      const response = await post(url, fields);
      if (response.ok && !response.redirected) return await response.json();
      showStatus(await errorMessage(response), true);
    } catch {
      showStatus(panel.dataset.failed, true);
    } finally {
      use.disabled = discard.disabled = false;
    }
    return null;
  }

  async function useDraft() {
    if (description.value !== description.defaultValue && !window.confirm(panel.dataset.replace)) return;
    const saved = await decide(buildUrl("useUrl", draftId), { text: text.value });
    if (!saved) return;
    description.value = description.defaultValue = saved.description;
    close(panel.dataset.used);
    description.focus();
  }

  async function discardDraft() {
    if (await decide(buildUrl("discardUrl", draftId), {})) {
      close(panel.dataset.discarded);
      write.focus();
    }
  }

  function close(message) {
    panel.querySelector(`[data-draft="${draftId}"]`)?.remove();
    result.hidden = true;
    show();
    showStatus(message);
  }

  function openDraft(draft) {
    if (request) return;
    result.hidden = false;
    text.value = draft.querySelector(".writer-draft").textContent;
    show({ id: draft.dataset.draft });
    showStatus("");
    text.focus();
  }

  write.addEventListener("click", start);
  stop.addEventListener("click", () => request?.abort());
  use.addEventListener("click", useDraft);
  discard.addEventListener("click", discardDraft);
  panel.addEventListener("click", (event) => {
    const draft = event.target.closest("button") && event.target.closest("[data-draft]");
    if (draft) openDraft(draft);
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && request) request.abort();
    if (event.key !== "Enter" || !event.target.matches("input, select")) return;
    event.preventDefault(); // Enter would submit the product form
    start();
  });

  description.parentElement.append(panel);
  show();
  panel.hidden = false;
})();
