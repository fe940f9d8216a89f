"use strict";

/* The list of models, and loading and unloading them. */

const WATCH_LOAD_MS = 500;

async function listModels() {
  state.models = (await readJson(state.token, "/models")).models;
  showModels();
}

function modelsOf(name) {
  const { capabilities } = MODES[name];
  return state.models.filter((model) => capabilities.some((one) => model.capabilities.includes(one)));
}

/** Offer the modes that have a model, and the models of the chosen mode: those that are loaded first. */
function showModels() {
  for (const input of document.querySelectorAll("input[name=mode]")) {
    input.parentElement.hidden = !modelsOf(input.value).length;
  }
  const isOffered = modelsOf(mode()).length;
  const first = document.querySelector(".mode-choice label:not([hidden]) input");
  if (!isOffered && first) first.checked = true;
  const models = modelsOf(mode()).sort((one, other) => other.loaded - one.loaded);
  const chosen = element("model").value;
  const options = models.map((model) => new Option(model.loaded ? model.id : `${model.id} (not loaded)`, model.id));
  element("model").replaceChildren(...options);
  if (models.some((model) => model.id === chosen)) element("model").value = chosen;
  if (!first) show(element("problem"), "There is no model here yet. Add one with: stoa models add PATH or REPO_ID");
  render();
}

function chosenModel() {
  return state.models.find((model) => model.id === element("model").value);
}

function showModelState() {
  const model = chosenModel();
  element("load").hidden = !model || model.loaded;
  element("unload").hidden = !model?.loaded;
  element("load").disabled = element("unload").disabled = state.isChangingModel;
  if (!state.isChangingModel) element("model-state").textContent = model ? describeModel(model) : "";
}

function describeModel(model) {
  if (model.error) return `Failed: ${model.error}`;
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  if (!model.loaded) return `Not loaded. ${megabytes(model.size_bytes)} on disk.`;
  const memory = model.memory_usage_bytes ? `, ${megabytes(model.memory_usage_bytes)} of memory` : "";
  return `Loaded${memory}, context of ${model.context_size.toLocaleString("en")} tokens.`;
}

/** Load or unload the chosen model, and say how far it is. */
async function changeModel(verb) {
  const id = element("model").value;
  state.isChangingModel = true;
  showModelState();
  element("model-state").textContent = verb === "load" ? "Loading." : "Unloading.";
  show(element("problem"), null);
  const watch = setInterval(() => watchLoad(id), WATCH_LOAD_MS);
  try {
    await readJson(state.token, `/models/${encodeURIComponent(id)}/${verb}`, { method: "POST", body: {} });
  } catch (problem) {
    show(element("problem"), problem.message);
  } finally {
    clearInterval(watch);
    state.isChangingModel = false;
    if (state.token) await listModels();
    element(verb === "load" ? "unload" : "load").focus();
  }
}

async function watchLoad(id) {
  const { models } = await readJson(state.token, "/models").catch(() => ({ models: [] })); // the load itself tells why
  const progress = models.find((model) => model.id === id)?.progress;
  if (state.isChangingModel && progress) element("model-state").textContent = `Loading: ${Math.round(100 * progress)} %.`;
}
