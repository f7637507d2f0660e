// OpenAI's own client, Chat Completions.
import OpenAI from "openai";
import { CLOCK, KEY, PLACE, WEATHER, forecast, noon, refusals, report, url } from "./report.mjs";

const client = new OpenAI({ apiKey: KEY, baseURL: `${url}/openai-chat/v1`, maxRetries: 0 });
const tools = [WEATHER, CLOCK].map(({ name, description, schema }) => ({
  type: "function",
  function: { name, description, parameters: schema },
}));
const asked = (content, more = {}) => ({
  model: "sim",
  messages: [{ role: "user", content }],
  stream_options: { include_usage: true },
  ...more,
});

async function collected(params) {
  const stream = client.chat.completions.stream(params);
  let reasoning = "";
  for await (const chunk of stream) reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
  const whole = await stream.finalChatCompletion();
  const { message, finish_reason: finish } = whole.choices[0];
  const usage = whole.usage ?? {};
  return {
    text: message.content ?? "",
    reasoning,
    calls: (message.tool_calls ?? []).map((c) => [c.function.name, JSON.parse(c.function.arguments)]),
    finish,
    model: whole.model,
    usage: [usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details?.cached_tokens],
    parsed: message.parsed ?? null,
  };
}

async function loop() {
  const seen = [];
  const runner = client.chat.completions.runTools({
    ...asked("loop"),
    stream: true,
    tools: [WEATHER, CLOCK].map((tool, place) => ({
      type: "function",
      function: {
        name: tool.name,
        description: tool.description,
        parameters: tool.schema,
        parse: JSON.parse,
        function: [forecast, noon][place],
      },
    })),
  });
  runner.on("functionToolCall", (call) => seen.push([call.name, JSON.parse(call.arguments)]));
  const text = await runner.finalContent();
  const steps = runner.messages.filter((m) => m.role === "assistant").length;
  return { text, calls: seen, steps };
}

async function customCall() {
  const tool = { type: "custom", custom: { name: "shell", description: "Runs a line" } };
  const stream = await client.chat.completions.create({ ...asked("custom"), tools: [tool], stream: true });
  const call = { name: "", input: "" };
  let finish = null;
  for await (const chunk of stream) {
    for (const { type, custom } of chunk.choices[0]?.delta.tool_calls ?? []) {
      call.type ??= type;
      call.name += custom?.name ?? "";
      call.input += custom?.input ?? "";
    }
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { call, finish };
}

const format = { type: "json_schema", json_schema: { name: "place", strict: true, schema: PLACE } };

await report({
  all: () => collected(asked("all", { tools })),
  loop,
  typed: async () => {
    const { text, finish } = await collected(asked("typed", { response_format: format }));
    return { value: JSON.parse(text), finish };
  },
  cut: () => collected(asked("cut")),
  custom: customCall,
  broken: () => collected(asked("broken")),
  whole: () => client.chat.completions.create({ model: "sim", messages: [{ role: "user", content: "all" }] }),
  models: async () => ({ models: (await client.models.list()).data.map((m) => m.id) }),
  "effort refused": () => collected(asked("all", { model: "gpt-5", reasoning_effort: "none" })),
  "tools refused": () => collected(asked("all", { model: "gpt-6-sol", tools })),
  "tools taken": () => collected(asked("all", { model: "gpt-6-sol", tools, reasoning_effort: "none" })),
  ...refusals((prompt) => collected(asked(prompt))),
});
