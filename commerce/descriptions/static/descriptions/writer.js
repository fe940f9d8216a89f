// Description writer of the product form: requests variants of a description, of which one is chosen, edited and used.
// Texts of users and models are only ever set as values or text content, never parsed as HTML.
"use strict";

(() => {
  const panel = document.getElementById("description-writer");
  const description = document.getElementById("id_description");
  if (!panel || !description) return;
  const element = (name) => document.getElementById(`writer-${name}`);
  const [write, stop, status, result, told, variants, editor, text, use, discard] =
    ["write", "stop", "status", "result", "told", "variants", "editor", "text", "use", "discard"].map(element);
  let draftId = null; // of the draft in the editor
  let request = null; // an AbortController while texts are written

  const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;
  const buildUrl = (name, id) => panel.dataset[name].replace("/0/", `/${id}/`);
  const label = (name, value) => panel.dataset[name].replace("#", () => value);

  function showStatus(message, isError = false) {
    status.textContent = message;
    status.classList.toggle("writer-wrong", isError);
  }

  async function post(url, fields, signal) {
    const body = new URLSearchParams([...fields, ["csrfmiddlewaretoken", token()]]);
    return fetch(url, { method: "POST", body, signal, headers: { Accept: "application/json" } });
  }

  async function errorMessage(response) {
    const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
    return (isJson && (await response.json()).message) || panel.dataset.failed;
  }

  async function start() {
    if (request) return;
    request = new AbortController();
    setWriting(true);
    closeEditor();
    result.hidden = true;
    stop.focus();
    showStatus(panel.dataset.writing);
    const written = await writeVariants(request.signal);
    request = null;
    setWriting(false);
    if (!written) return write.focus();
    told.textContent = written.told;
    variants.replaceChildren(...written.variants.map(variantCard));
    result.hidden = false;
    if (written.left !== null) element("left").textContent = label("left", written.left);
    showStatus(panel.dataset.ready);
    variants.focus({ preventScroll: true });
    result.scrollIntoView({ block: "nearest" });
  }

  function setWriting(isWriting) {
    write.disabled = isWriting;
    stop.hidden = !isWriting;
    panel.setAttribute("aria-busy", String(isWriting));
  }

  async function writeVariants(signal) {
    const options = ["tone", "words", "language", "keywords"].map((name) => [name === "words" ? "max_words" : name, element(name).value]);
    try {
      const response = await post(panel.dataset.writeUrl, options, signal);
      if (response.ok && !response.redirected) return await response.json();
      showStatus(await errorMessage(response), true);
    } catch {
      showStatus(signal.aborted ? panel.dataset.stopped : panel.dataset.failed, !signal.aborted);
    }
    return null;
  }

  function variantCard(variant, index) {
    const card = document.createElement("li");
    card.dataset.draft = variant.draft_id;
    const body = paragraph("writer-draft", variant.parts.map(([part, isMarked]) => (isMarked ? mark(part) : part)));
    body.dir = "auto";
    const choose = document.createElement("button");
    choose.type = "button";
    choose.className = "writer-button";
    choose.textContent = label("choose", index + 1);
    const notes = [
      variant.is_fallback && panel.dataset.fallback,
      variant.unsupported.length ? label("unsupported", variant.unsupported.join(", ")) : panel.dataset.supported,
      variant.missing.length && label("missing", variant.missing.join(", ")),
    ].filter(Boolean);
    card.append(paragraph("writer-title", [label("variant", index + 1)]), body, ...notes.map((note) => paragraph("writer-soft", [note])), choose);
    return card;
  }

  function paragraph(className, children) {
    const made = document.createElement("p");
    made.className = className;
    made.append(...children);
    return made;
  }

  function mark(words) {
    const made = document.createElement("mark");
    made.textContent = words;
    return made;
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
    const ids = [...variants.children].map((card) => card.dataset.draft);
    const others = ids.includes(draftId) ? ids.filter((id) => id !== draftId) : [];
    const saved = await decide(buildUrl("useUrl", draftId), [["text", text.value], ...others.map((id) => ["other", id])]);
    if (!saved) return;
    description.value = description.defaultValue = saved.description;
    [draftId, ...others].forEach(removeDraft);
    closeEditor();
    showStatus(panel.dataset.used);
    description.focus();
  }

  async function discardDraft() {
    if (!(await decide(buildUrl("discardUrl", draftId), []))) return;
    removeDraft(draftId);
    closeEditor();
    showStatus(panel.dataset.discarded);
    (result.hidden ? write : variants).focus();
  }

  function removeDraft(id) {
    panel.querySelectorAll(`[data-draft="${id}"]`).forEach((shown) => shown.remove());
    result.hidden = !variants.children.length;
  }

  function openDraft(draft) {
    if (request) return;
    closeEditor();
    draft.classList.add("writer-chosen");
    draftId = draft.dataset.draft;
    text.value = draft.querySelector(".writer-draft").textContent;
    editor.hidden = false;
    text.focus({ preventScroll: true });
    use.scrollIntoView({ block: "center" }); // the buttons at the bottom of the page would cover it
  }

  function closeEditor() {
    draftId = null;
    editor.hidden = true;
    panel.querySelector(".writer-chosen")?.classList.remove("writer-chosen");
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
  panel.hidden = false;
})();
