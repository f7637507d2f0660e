// Anthropic's own client: its helper for streams and its runner of tools.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { CLOCK, KEY, PLACE, WEATHER, forecast, noon, refusals, report, url } from "./report.mjs";

const client = new Anthropic({ apiKey: KEY, baseURL: url, maxRetries: 0 });
const tools = [WEATHER, CLOCK].map(({ name, description, schema }) => ({
  name,
  description,
  input_schema: schema,
}));
const asked = (content, more = {}) => ({
  model: "sim",
  max_tokens: 256,
  messages: [{ role: "user", content }],
  ...more,
});

function told(message) {
  const { content, stop_reason: finish, usage, model } = message;
  const joined = (kind, field) => content.flatMap((b) => (b.type === kind ? [b[field]] : [])).join("");
  return {
    text: joined("text", "text"),
    reasoning: joined("thinking", "thinking"),
    signed: content.every((b) => b.type !== "thinking" || b.signature !== ""),
    calls: content.filter((b) => b.type === "tool_use").map((b) => [b.name, b.input]),
    finish,
    model,
    usage: [usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens],
  };
}

const collected = async (params) => told(await client.messages.stream(params).finalMessage());

async function loop(more = {}) {
  const seen = [];
  const runnable = [WEATHER, CLOCK].map((tool, place) =>
    betaTool({
      name: tool.name,
      description: tool.description,
      inputSchema: tool.schema,
      run: (args) => {
        seen.push([tool.name, args]);
        return [forecast, noon][place](args);
      },
    }),
  );
  const runner = client.beta.messages.toolRunner({ ...asked("loop"), tools: runnable, stream: true, ...more });
  let steps = 0;
  let last;
  for await (const stream of runner) {
    last = await stream.finalMessage();
    steps += 1;
  }
  return { ...told(last), calls: seen, steps };
}

const thinks = (type, more = {}) => asked("all", { model: "claude-opus-5-5", thinking: { type, ...more } });

await report({
  all: () => collected(asked("all", { tools })),
  loop: () => loop(),
  "loop with thinking": () => loop({ model: "claude-opus-5-5", thinking: { type: "adaptive", display: "summarized" } }),
  typed: async () => {
    const format = { type: "json_schema", schema: PLACE };
    const { text, finish } = await collected(asked("typed", { output_config: { format } }));
    return { value: JSON.parse(text), finish };
  },
  cut: () => collected(asked("cut")),
  broken: () => collected(asked("broken")),
  whole: () => client.messages.create(asked("all")),
  models: async () => ({ models: (await client.models.list()).data.map((m) => m.id) }),
  tokens: async () => {
    const { input_tokens: tokens } = await client.messages.countTokens({
      model: "sim",
      messages: [{ role: "user", content: "x".repeat(40) }],
    });
    return { tokens };
  },
  "off refused": () => collected(thinks("disabled")),
  "thinking taken": () => collected(thinks("adaptive", { display: "summarized" })),
  "between calls": () =>
    collected(asked("all", { model: "claude-sonnet-5-5", thinking: { type: "between_tools" } })),
  "sampling refused": () => collected(asked("all", { temperature: 0.5 })),
  "forced refused": () =>
    collected(asked("all", { model: "claude-opus-5-5", tools, tool_choice: { type: "any" } })),
  "system between": () =>
    collected(
      asked("all", {
        messages: [
          { role: "user", content: "hello" },
          { role: "assistant", content: "Hi." },
          { role: "system", content: "Be brief." },
          { role: "user", content: "all" },
        ],
      }),
    ),
  "cache warmed": () => collected(asked("all", { max_tokens: 0 })),
  toolset: () => collected(asked("all", { tools: [{ type: "computer_toolset_20260801" }] })),
  "thread refused": async () => {
    const thread = client.beta.messages.thread({ model: "sim", max_tokens: 64 });
    return told(await thread.stream({ role: "user", content: "all" }).finalMessage());
  },
  ...refusals((prompt) => collected(asked(prompt))),
});
