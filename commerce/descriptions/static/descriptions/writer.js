// The part of the product form that has a description written, and shows it as it comes. What people and models wrote
// is only ever set as a value or as text: nothing of it is read as HTML.
"use strict";

(() => {
  const panel = document.getElementById("description-writer");
  const description = document.getElementById("id_description");
  if (!panel || !description) return;
  const part = (name) => document.getElementById(`writer-${name}`);
  const [write, stop, status, result, text, use, discard] =
    ["write", "stop", "status", "result", "text", "use", "discard"].map(part);
  let draftId = null; // of the text that is shown, once it is complete
  let asking = null; // an AbortController while a text is written

  const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;
  const urlOf = (name, id) => panel.dataset[name].replace("/0/", `/${id}/`);

  function say(words, isWrong = false) {
    status.textContent = words;
    status.classList.toggle("writer-wrong", isWrong);
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

  async function refusalOf(answer) {
    const isJson = (answer.headers.get("Content-Type") || "").startsWith("application/json");
    return (isJson && (await answer.json()).message) || panel.dataset.failed;
  }

  async function* eventsOf(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (waiting + value).split("\n\n");
      waiting = events.pop();
      for (const event of events) if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }

  async function start() {
    if (asking) return;
    asking = new AbortController();
    text.value = "";
    result.hidden = false;
    show({ isWriting: true });
    stop.focus();
    say(panel.dataset.writing);
    try {
      await read(asking.signal);
    } catch {
      show();
      say(asking.signal.aborted ? panel.dataset.stopped : panel.dataset.cut, !asking.signal.aborted);
    }
    asking = null;
    if (draftId === null) return write.focus();
    text.focus({ preventScroll: true });
    use.scrollIntoView({ block: "center" }); // not behind the buttons at the foot of the page
  }

  async function read(signal) {
    const wishes = {
      tone: part("tone").value, max_words: part("words").value,
      language: part("language").value, keywords: part("keywords").value,
    };
    const answer = await post(panel.dataset.writeUrl, wishes, signal);
    if (!answer.ok || answer.redirected) {
      const refusal = await refusalOf(answer);
      result.hidden = true;
      show();
      return say(refusal, true);
    }
    for await (const event of eventsOf(answer)) {
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
    say(panel.dataset.ready);
    if (event.left !== null) part("left").textContent = panel.dataset.left.replace("#", event.left);
  }

  async function decide(url, fields) {
    use.disabled = discard.disabled = true;
    try {
      const answer = await post(url, fields);
      if (answer.ok && !answer.redirected) return await answer.json();
      say(await refusalOf(answer), true);
    } catch {
      say(panel.dataset.failed, true);
    } finally {
      use.disabled = discard.disabled = false;
    }
    return null;
  }

  async function useIt() {
    if (description.value !== description.defaultValue && !window.confirm(panel.dataset.replace)) return;
    const told = await decide(urlOf("useUrl", draftId), { text: text.value });
    if (!told) return;
    description.value = description.defaultValue = told.description;
    close(panel.dataset.used);
    description.focus();
  }

  async function discardIt() {
    if (await decide(urlOf("discardUrl", draftId), {})) {
      close(panel.dataset.discarded);
      write.focus();
    }
  }

  function close(words) {
    panel.querySelector(`[data-draft="${draftId}"]`)?.remove();
    result.hidden = true;
    show();
    say(words);
  }

  function takeUp(draft) {
    if (asking) return;
    result.hidden = false;
    text.value = draft.querySelector(".writer-draft").textContent;
    show({ id: draft.dataset.draft });
    say("");
    text.focus();
  }

  write.addEventListener("click", start);
  stop.addEventListener("click", () => asking?.abort());
  use.addEventListener("click", useIt);
  discard.addEventListener("click", discardIt);
  panel.addEventListener("click", (event) => {
    const draft = event.target.closest("button") && event.target.closest("[data-draft]");
    if (draft) takeUp(draft);
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && asking) asking.abort();
    if (event.key !== "Enter" || !event.target.matches("input, select")) return;
    event.preventDefault(); // it would send the product's form
    start();
  });

  description.parentElement.append(panel);
  show();
  panel.hidden = false;
})();
