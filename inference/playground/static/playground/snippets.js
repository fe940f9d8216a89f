"use strict";

/** The same request over HTTP, as code that can be pasted: chat through the OpenAI-compatible route. */
const snippets = {
  curl(origin, request) {
    const { path, body } = overHttp(request);
    const json = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
    return [
      `curl -N ${origin}${path} \\`,
      `  -H "Authorization: Bearer $API_KEY" \\`,
      `  -H "Content-Type: application/json" \\`,
      `  -d '${json}'`,
    ].join("\n");
  },

  python(origin, request) {
    if (request.input) return pythonResponse(origin, request);
    return request.messages ? pythonChat(origin, request) : pythonCompletion(origin, request);
  },
};

const RESPONSE_PARAMETERS = ["model", "input", "instructions", "max_output_tokens", "temperature", "top_p"];
const OPENAI_PARAMETERS = ["model", "messages", "max_tokens", "temperature", "top_p", "seed", "stop"];

function overHttp(request) {
  const path = request.input ? "/v1/responses" : request.messages ? "/v1/chat/completions" : "/inference/stream";
  return { path, body: { ...request, stream: true } };
}

function pythonChat(origin, request) {
  const known = Object.entries(request).filter(([name]) => OPENAI_PARAMETERS.includes(name));
  const further = Object.fromEntries(Object.entries(request).filter(([name]) => !OPENAI_PARAMETERS.includes(name)));
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["API_KEY"])`,
    "stream = client.chat.completions.create(",
    ...known.map(([name, value]) => `    ${name}=${python(value)},`),
    `    extra_body=${python(further)},`,
    "    stream=True,",
    ")",
    "for chunk in stream:",
    '    print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join("\n");
}

function pythonResponse(origin, request) {
  const known = Object.entries(request).filter(([name]) => RESPONSE_PARAMETERS.includes(name));
  const further = Object.fromEntries(Object.entries(request).filter(([name]) => !RESPONSE_PARAMETERS.includes(name)));
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["API_KEY"])`,
    "stream = client.responses.create(",
    ...known.map(([name, value]) => `    ${name}=${python(value)},`),
    `    extra_body=${python(further)},`,
    "    stream=True,",
    ")",
    "for event in stream:",
    '    if event.type == "response.output_text.delta":',
    '        print(event.delta, end="", flush=True)',
  ].join("\n");
}

function pythonCompletion(origin, request) {
  return [
    "import json",
    "import os",
    "import urllib.request",
    "",
    "body = {",
    ...Object.entries(request).map(([name, value]) => `    "${name}": ${python(value)},`),
    "}",
    "request = urllib.request.Request(",
    `    "${origin}/inference/stream",`,
    "    json.dumps(body).encode(),",
    '    {"Authorization": "Bearer " + os.environ["API_KEY"], "Content-Type": "application/json"},',
    ")",
    "with urllib.request.urlopen(request) as events:",
    "    for line in events:",
    '        if line.startswith(b"data: "):',
    '            print(json.loads(line[6:]).get("token", ""), end="", flush=True)',
  ].join("\n");
}

/** A Python literal. JSON's strings, numbers, lists and objects are Python's too; there are no others here. */
function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${python(inner)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
