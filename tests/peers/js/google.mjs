// Google's own client: generateContentStream, and its calls of functions by itself.
import { GoogleGenAI } from "@google/genai";
import { CLOCK, KEY, PLACE, WEATHER, forecast, noon, refusals, report, url } from "./report.mjs";

const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
const declared = [WEATHER, CLOCK].map(({ name, description, schema }) => ({
  name,
  description,
  parametersJsonSchema: schema,
}));
const asked = (contents, config = {}, model = "sim") => ({ model, contents, config });

async function collected(params) {
  const found = { text: "", reasoning: "", calls: [], finish: null, usage: [] };
  for await (const chunk of await client.models.generateContentStream(params)) {
    for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
      if (part.text) found[part.thought ? "reasoning" : "text"] += part.text;
      if (part.functionCall) found.calls.push([part.functionCall.name, part.functionCall.args]);
    }
    found.finish = chunk.candidates?.[0]?.finishReason ?? found.finish;
    const usage = chunk.usageMetadata;
    if (usage) {
      const { promptTokenCount, candidatesTokenCount, cachedContentTokenCount } = usage;
      found.usage = [promptTokenCount, candidatesTokenCount, cachedContentTokenCount];
    }
    found.model = chunk.modelVersion ?? found.model;
  }
  return found;
}

async function interaction(input, more = {}) {
  const found = { text: "", reasoning: "", calls: [], finish: null };
  const open = {};
  for await (const event of await client.interactions.create({ model: "sim", input, stream: true, ...more })) {
    const { delta, index, step } = event;
    if (event.event_type === "step.start" && step.type === "function_call") open[index] = [step.id, step.name, ""];
    if (delta?.type === "text") found.text += delta.text;
    if (delta?.type === "thought_summary") found.reasoning += delta.content.text;
    if (delta?.type === "arguments_delta") open[index][2] += delta.arguments;
    if (event.event_type === "interaction.completed") found.finish = event.interaction.status;
  }
  found.calls = Object.values(open).map(([id, name, input]) => [name, JSON.parse(input), id]);
  return found;
}

async function interactions() {
  const tools = [WEATHER, CLOCK].map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
  }));
  const first = await interaction("loop", { tools });
  const results = first.calls.map(([name, input, call_id]) => ({
    type: "function_result",
    call_id,
    name,
    result: name === "weather" ? forecast(input) : noon(),
  }));
  const history = [
    { type: "user_input", content: [{ type: "text", text: "loop" }] },
    ...first.calls.map(([name, args, id]) => ({ type: "function_call", id, name, arguments: args })),
    ...results,
  ];
  const second = await interaction(history, { tools });
  const calls = first.calls.map(([name, input]) => [name, input]);
  return { text: second.text, reasoning: first.reasoning, calls, finishes: [first.finish, second.finish] };
}

async function loop() {
  const seen = [];
  const callable = {
    tool: async () => ({ functionDeclarations: declared }),
    callTool: async (calls) =>
      calls.map(({ id, name, args }) => {
        seen.push([name, args]);
        const output = name === "weather" ? forecast(args) : noon();
        return { functionResponse: { id, name, response: { output } } };
      }),
  };
  const { text } = await collected(asked("loop", { tools: [callable] }));
  return { text, calls: seen };
}

await report({
  all: () =>
    collected(
      asked("all", { tools: [{ functionDeclarations: declared }], thinkingConfig: { includeThoughts: true } }),
    ),
  loop,
  interactions,
  "interactions refused": () => interaction("refuse 429"),
  typed: async () => {
    const config = { responseMimeType: "application/json", responseJsonSchema: PLACE };
    const { text, finish } = await collected(asked("typed", config));
    return { value: JSON.parse(text), finish };
  },
  cut: () => collected(asked("cut")),
  long: () => collected(asked("long")),
  chat: async () => {
    const chat = client.chats.create({ model: "sim" });
    for await (const _ of await chat.sendMessageStream({ message: "cut" }));
    let text = "";
    for await (const chunk of await chat.sendMessageStream({ message: "say this" })) text += chunk.text ?? "";
    return { text };
  },
  broken: () => collected(asked("broken")),
  whole: () => client.models.generateContent(asked("all")),
  models: async () => {
    const found = [];
    for await (const model of await client.models.list()) found.push(model.name);
    return { models: found };
  },
  tokens: async () => {
    const counted = await client.models.countTokens({ model: "sim", contents: "x".repeat(40) });
    return { tokens: counted.totalTokens };
  },
  "level refused": () =>
    collected(asked("all", { thinkingConfig: { thinkingLevel: "MINIMAL" } }, "gemini-4-argon")),
  "level taken": () => collected(asked("all", { thinkingConfig: { thinkingLevel: "HIGH" } }, "gemini-4-argon")),
  ...refusals((prompt) => collected(asked(prompt))),
});
