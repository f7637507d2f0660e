// OpenAI's own client, Responses, its streaming helper and its runner of tools.
import OpenAI from "openai";
import { ResponsesToolRunner } from "openai/helpers/responses-tool-runner";
import { CLOCK, KEY, PLACE, WEATHER, forecast, noon, refusals, report, url } from "./report.mjs";

const client = new OpenAI({ apiKey: KEY, baseURL: `${url}/openai-responses/v1`, maxRetries: 0 });
const tools = [WEATHER, CLOCK].map(({ name, description, schema }) => ({
  type: "function",
  name,
  description,
  parameters: schema,
  strict: false,
}));
const asked = (input, more = {}) => ({ model: "sim", input, ...more });

async function collected(params) {
  const stream = client.responses.stream(params);
  let reasoning = "";
  stream.on("response.reasoning_summary_text.delta", (event) => (reasoning += event.delta));
  const response = await stream.finalResponse();
  const usage = response.usage ?? {};
  const items = response.output;
  return {
    text: response.output_text,
    reasoning,
    calls: items.filter((i) => i.type === "function_call").map((i) => [i.name, JSON.parse(i.arguments)]),
    custom: items.filter((i) => i.type === "custom_tool_call").map((i) => [i.name, i.input]),
    finish: response.incomplete_details?.reason ?? response.status,
    model: response.model,
    usage: [usage.input_tokens, usage.output_tokens, usage.input_tokens_details?.cached_tokens],
    parsed: response.output_parsed ?? null,
    echo: {
      tools: response.tools.map((t) => t.name ?? t.type),
      format: response.text?.format?.type,
      effort: response.reasoning?.effort ?? null,
      instructions: response.instructions,
      metadata: response.metadata,
      most: response.max_output_tokens,
      choice: response.tool_choice,
    },
  };
}

async function loop() {
  const seen = [];
  const runner = new ResponsesToolRunner({
    functions: tools.map((tool, place) => ({
      tool,
      execute: (args) => {
        seen.push([tool.name, args]);
        return [forecast, noon][place](args);
      },
    })),
  });
  let steps = 0;
  const onEvent = (event) => {
    steps += event.type === "response.created";
  };
  const response = await runner.run(client, asked("loop"), { stream: true, onEvent });
  return { text: response.output_text, calls: seen, steps };
}

const format = { type: "json_schema", name: "place", strict: true, schema: PLACE };

await report({
  all: () => collected(asked("all", { tools, reasoning: { effort: "low", summary: "auto" } })),
  loop,
  typed: async () => {
    const { text, finish, echo } = await collected(asked("typed", { text: { format } }));
    return { value: JSON.parse(text), finish, echo };
  },
  echo: () =>
    collected(
      asked("all", {
        tools,
        tool_choice: "required",
        instructions: "Be brief.",
        metadata: { who: "me" },
        max_output_tokens: 100,
        reasoning: { effort: "low" },
      }),
    ),
  cut: () => collected(asked("cut")),
  custom: () => collected(asked("custom", { tools: [{ type: "custom", name: "shell" }] })),
  broken: () => collected(asked("broken")),
  whole: () => client.responses.create(asked("all")),
  tokens: async () => {
    const { input_tokens: tokens } = await client.responses.inputTokens.count(asked("x".repeat(40)));
    return { tokens };
  },
  "effort refused": () => collected(asked("all", { model: "gpt-6-astra", reasoning: { effort: "none" } })),
  "effort taken": () => collected(asked("all", { model: "gpt-6-sol", reasoning: { effort: "max" } })),
  ...refusals((prompt) => collected(asked(prompt))),
});
