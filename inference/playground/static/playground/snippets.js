"use strict";

/** The same request over HTTP, as code that can be pasted: chat through the OpenAI-compatible route. */
const snippets = {
  curl(origin, { path, body }) {
    const json = JSON.stringify(streamed(path, body), null, 2).replaceAll("'", "'\\''");
    return [
      `curl -N ${origin}${path} \\`,
      `  -H "Authorization: Bearer $API_KEY" \\`,
      `  -H "Content-Type: application/json" \\`,
      `  -d '${json}'`,
    ].join("\n");
  },

  python(origin, { path, body }) {
    return PYTHON_CALLS[path] ? pythonOpenAI(origin, PYTHON_CALLS[path], body) : pythonHttp(origin, path, body);
  },

  javascript(origin, { path, body }) {
    return [
      `const answer = await fetch("${origin}${path}", {`,
      '  method: "POST",',
      '  headers: { Authorization: `Bearer ${process.env.API_KEY}`, "Content-Type": "application/json" },',
      `  body: JSON.stringify(${JSON.stringify(streamed(path, body), null, 2).replaceAll("\n", "\n  ")}),`,
      "});",
      "if (!answer.ok) throw new Error(await answer.text());",
      ...(JAVASCRIPT_TEXTS[path] ? javascriptEvents(JAVASCRIPT_TEXTS[path]) : ["console.log(await answer.json());"]),
    ].join("\n");
  },
};

/** Where the text is in an event of each route that streams. */
const JAVASCRIPT_TEXTS = {
  "/v1/chat/completions": "event.choices[0]?.delta.content",
  "/v1/responses": "event.delta",
  "/inference/stream": "event.token",
};

function streamed(path, body) {
  return JAVASCRIPT_TEXTS[path] ? { ...body, stream: true } : body;
}

function javascriptEvents(text) {
  return [
    'let rest = "";',
    "for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {",
    '  const lines = (rest + piece).split("\\n");',
    "  rest = lines.pop();",
    "  for (const line of lines) {",
    '    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;',
    "    const event = JSON.parse(line.slice(6));",
    `    process.stdout.write(${text} ?? "");`,
    "  }",
    "}",
  ];
}

/** The calls of OpenAI's library: the parameters that it knows, and how its result is read. */
const PYTHON_CALLS = {
  "/v1/chat/completions": {
    name: "chat.completions",
    parameters: ["model", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "tools", "logprobs", "top_logprobs"],
    result: "stream",
    reads: ["for chunk in stream:", '    print(chunk.choices[0].delta.content or "", end="", flush=True)'],
  },
  "/v1/responses": {
    name: "responses",
    parameters: ["model", "input", "instructions", "max_output_tokens", "temperature", "top_p"],
    result: "stream",
    reads: [
      "for event in stream:",
      '    if event.type == "response.output_text.delta":',
      '        print(event.delta, end="", flush=True)',
    ],
  },
  "/v1/embeddings": {
    name: "embeddings",
    parameters: ["model", "input"],
    result: "answer",
    reads: ["for item in answer.data:", "    print(item.index, item.embedding[:5])"],
  },
};

function pythonOpenAI(origin, { name, parameters, result, reads }, body) {
  const known = Object.entries(body).filter(([field]) => parameters.includes(field));
  const further = Object.fromEntries(Object.entries(body).filter(([field]) => !parameters.includes(field)));
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${origin}/v1", api_key=os.environ["API_KEY"])`,
    `${result} = client.${name}.create(`,
    ...known.map(([field, value]) => `    ${field}=${python(value)},`),
    ...(Object.keys(further).length ? [`    extra_body=${python(further)},`] : []),
    ...(result === "stream" ? ["    stream=True,"] : []),
    ")",
    ...reads,
  ].join("\n");
}

function pythonHttp(origin, path, body) {
  const reads = JAVASCRIPT_TEXTS[path]
    ? [
        "    for line in answer:",
        '        if line.startswith(b"data: "):',
        '            print(json.loads(line[6:]).get("token", ""), end="", flush=True)',
      ]
    : ["    print(json.load(answer))"];
  return [
    "import json",
    "import os",
    "import urllib.request",
    "",
    "body = {",
    ...Object.entries(body).map(([name, value]) => `    "${name}": ${python(value)},`),
    "}",
    "request = urllib.request.Request(",
    `    "${origin}${path}",`,
    "    json.dumps(body).encode(),",
    '    {"Authorization": "Bearer " + os.environ["API_KEY"], "Content-Type": "application/json"},',
    ")",
    "with urllib.request.urlopen(request) as answer:",
    ...reads,
  ].join("\n");
}

/** A Python literal. JSON's strings and numbers are Python's too. */
function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null) return "None";
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${python(inner)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
