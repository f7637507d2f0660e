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
