"use strict";

/** An answer of the API that is an error. Its message is the API's. */
class Refused extends Error {}

async function askApi(token, path, { method = "GET", body, signal } = {}) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (answer.ok) return answer;
  const said = await answer.json();
  throw new Refused(said.error?.message || said.message || `${path} answered ${answer.status}.`);
}

async function readJson(token, path, options) {
  return (await askApi(token, path, options)).json();
}

/** Yield the data of server-sent events. */
async function* readEvents(answer) {
  const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", piece; !(piece = await lines.read()).done; ) {
    const parts = (rest + piece.value).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}

/** A chat on /v1/chat/completions, whose calls of tools come in pieces. */
class ChatStream {
  constructor(token) {
    this.token = token;
    this.connection = new AbortController();
  }

  cancel() {
    this.connection.abort();
  }

  /** Return the end as the socket would, with `tool_calls`. onText(text, logprobs) is called with each piece. */
  async run(body, onText) {
    const end = { finish_reason: "cancelled", usage: { prompt_tokens: 0, completion_tokens: 0 }, tool_calls: [] };
    const whole = { ...body, stream: true, stream_options: { include_usage: true } };
    try {
      const options = { method: "POST", body: whole, signal: this.connection.signal };
      const answer = await askApi(this.token, "/v1/chat/completions", options);
      for await (const chunk of readEvents(answer)) this.take(chunk, end, onText);
    } catch (problem) {
      if (problem.name !== "AbortError") throw problem;
    }
    return end;
  }

  take(chunk, end, onText) {
    if (chunk.error) throw new Refused(chunk.error.message);
    if (chunk.usage) end.usage = chunk.usage;
    for (const { delta, finish_reason, logprobs } of chunk.choices) {
      if (delta.content) onText(delta.content, logprobs);
      for (const call of delta.tool_calls || []) joinToolCall(end.tool_calls, call);
      if (finish_reason) end.finish_reason = finish_reason;
    }
  }
}

/** The first piece of a call has its id and name; later ones add to the arguments. */
function joinToolCall(calls, { index, id, function: piece }) {
  calls[index] ??= { id, type: "function", function: { name: piece.name, arguments: "" } };
  calls[index].function.arguments += piece.arguments || "";
}
