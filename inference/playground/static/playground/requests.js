"use strict";

/* What the form asks for, as `{path, body}` of the API. */

const PARAMETERS = ["max_tokens", "temperature", "top_p", "top_k", "repeat_penalty", "seed"];
const WHOLE = ["max_tokens", "top_k", "seed"];
const TOP_LOGPROBS = 4;

/** The modes: the model's capability that each needs, and what is said in its empty places. */
const MODES = {
  chat: {
    capabilities: ["text-generation"],
    label: "Your message",
    hint: "Ask something below. The conversation goes through the model's chat template.",
  },
  complete: {
    capabilities: ["text-generation"],
    label: "The beginning of a text",
    hint: "Begin a text below. The model goes on where it ends.",
  },
  respond: {
    capabilities: ["text-generation"],
    label: "Your message",
    hint: "Ask something below, and cut the connection while the answer comes. The rest follows by another connection.",
  },
  embed: {
    capabilities: ["embeddings"],
    label: "Sentences, one a line",
    hint: "Write some sentences below, one a line. A map shows which are similar.",
    example: "A kettle for tea\nA pot that boils water\nA lamp for the desk",
  },
  rerank: {
    capabilities: ["rerank", "embeddings"],
    label: "Documents, one a line",
    hint: "Write a query and some documents below, one a line. They come back in the order of their relevance.",
    example: "A kettle for tea\nA lamp for the desk",
  },
};
const EXAMPLE = "Hello";
const EXAMPLE_QUERY = "something for tea";
const EXAMPLE_TOOL = [
  {
    type: "function",
    function: {
      name: "look_up_price",
      description: "Returns the price of a product.",
      parameters: { type: "object", properties: { product: { type: "string" } }, required: ["product"] },
    },
  },
];

function mode() {
  return document.querySelector("input[name=mode]:checked").value;
}

function writesText() {
  return MODES[mode()].capabilities.includes("text-generation");
}

/** The request for a text: a prompt, or lines to compare. */
function planRequest(text, turns) {
  const model = element("model").value;
  if (mode() === "embed") return { path: "/v1/embeddings", body: { model, input: linesOf(text) } };
  if (mode() === "rerank") {
    const query = element("query").value || EXAMPLE_QUERY;
    return { path: "/v1/rerank", body: { model, query, documents: linesOf(text) } };
  }
  if (mode() === "complete") return { path: "/inference/stream", body: { model, prompt: text, ...sampling() } };
  return planAnswer([...turns, { role: "user", content: text }]);
}

/** The request for the next message of a conversation. A response has only the last message. */
function planAnswer(messages) {
  if (mode() === "respond") return planResponse(messages.at(-1).content);
  const system = element("system").value.trim();
  const before = system ? [{ role: "system", content: system }] : [];
  const body = { model: element("model").value, messages: [...before, ...messages.map(messageToSend)], ...sampling() };
  const tools = readTools();
  if (tools.length) body.tools = tools;
  return { path: "/v1/chat/completions", body };
}

function messageToSend({ role, content, tool_calls, tool_call_id }) {
  const message = { role, content };
  if (tool_calls) message.tool_calls = tool_calls;
  if (tool_call_id) message.tool_call_id = tool_call_id;
  return message;
}

/** The body of /v1/responses, which has names of its own. */
function planResponse(text) {
  const body = { model: element("model").value, input: text };
  const system = element("system").value.trim();
  if (system) body.instructions = system;
  for (const name of PARAMETERS) {
    const given = element(name).value;
    if (given !== "") body[name === "max_tokens" ? "max_output_tokens" : name] = Number(given);
  }
  return { path: "/v1/responses", body: { ...body, ...stops() } };
}

function sampling() {
  const chosen = {};
  for (const name of PARAMETERS) {
    const given = Number(element(name).value || element(name).placeholder); // routes differ in what they assume
    if (!Number.isNaN(given)) chosen[name] = WHOLE.includes(name) ? Math.trunc(given) : given;
  }
  const probabilities = element("probabilities").checked ? { logprobs: true, top_logprobs: TOP_LOGPROBS } : {};
  return { ...chosen, ...stops(), ...probabilities };
}

function stops() {
  const stop = linesOf(element("stop_at").value);
  return stop.length ? { stop } : {};
}

function linesOf(text) {
  return text.split("\n").filter((line) => line.trim());
}

/** The tools of the form. What is no JSON list marks the field, and sends nothing. */
function readTools() {
  const field = element("tools");
  field.setCustomValidity("");
  if (!field.value.trim()) return [];
  try {
    const tools = JSON.parse(field.value);
    if (Array.isArray(tools)) return tools;
  } catch {
    // said below
  }
  field.setCustomValidity("Tools are a JSON list of function definitions.");
  return [];
}
