// The AI SDK of Vercel: one program for all of its providers, named by the second argument.
import { Output, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool } from "ai";
import { CLOCK, KEY, PLACE, WEATHER, forecast, noon, refusals, report, url } from "./report.mjs";

const PROVIDERS = {
  "openai-chat": async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({ apiKey: KEY, baseURL: `${url}/openai-chat/v1` }).chat;
  },
  "openai-responses": async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({ apiKey: KEY, baseURL: `${url}/openai-responses/v1` }).responses;
  },
  anthropic: async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return createAnthropic({ apiKey: KEY, baseURL: `${url}/v1` });
  },
  google: async () => {
    const { createGoogle } = await import("@ai-sdk/google");
    return createGoogle({ apiKey: KEY, baseURL: `${url}/v1beta` });
  },
  bedrock: async () => {
    const { createAmazonBedrock } = await import("@ai-sdk/amazon-bedrock");
    const keys = { accessKeyId: KEY, secretAccessKey: "not-used" };
    return createAmazonBedrock({ region: "eu-north-1", baseURL: url, ...keys });
  },
  "bedrock-bearer": async () => {
    const { createAmazonBedrock } = await import("@ai-sdk/amazon-bedrock");
    return createAmazonBedrock({ region: "eu-north-1", baseURL: url, apiKey: KEY });
  },
  mistral: async () => {
    const { createMistral } = await import("@ai-sdk/mistral");
    return createMistral({ apiKey: KEY, baseURL: `${url}/mistral/v1` });
  },
  xai: async () => {
    const { createXai } = await import("@ai-sdk/xai");
    return createXai({ apiKey: KEY, baseURL: `${url}/openai-responses/v1` }).responses;
  },
};

// What a provider sends depends on the model's name; of each family the newest, which refuse the most.
const NEWEST = {
  "openai-chat": ["gpt-6-sol", "gpt-5.4"],
  "openai-responses": ["gpt-6-sol", "gpt-6-astra", "gpt-5"],
  anthropic: ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1"],
  google: ["gemini-4-argon", "gemini-3.7-flash", "gemini-2.5-flash"],
  bedrock: ["us.anthropic.claude-opus-5-5", "us.anthropic.claude-sonnet-5-5", "amazon.nova-pro-v1:0"],
  mistral: ["mistral-large-4", "zai-glm-5-3", "mistral-medium-latest", "magistral-medium-latest"],
  xai: ["grok-4.7", "grok-4.5"],
};

const provider = process.argv[3];
const model = await PROVIDERS[provider]();

async function collected(prompt, { name = "sim", ...more } = {}) {
  let failure = null;
  const onError = ({ error }) => (failure = error);
  const result = streamText({ model: model(name), prompt, maxRetries: 0, onError, ...more });
  const found = { text: "", reasoning: "", calls: [], steps: 0, warnings: [] };
  for await (const part of result.stream) {
    if (part.type === "text-delta") found.text += part.text;
    if (part.type === "reasoning-delta") found.reasoning += part.text;
    if (part.type === "tool-call") found.calls.push([part.toolName, part.input]);
    if (part.type === "finish-step") {
      found.steps += 1;
      const { usage, finishReason } = part;
      found.usage = [usage.inputTokens, usage.outputTokens, usage.inputTokenDetails?.cacheReadTokens];
      found.finish = finishReason;
    }
  }
  if (failure) throw failure;
  found.warnings = ((await result.warnings) ?? []).map((w) => JSON.stringify(w));
  return { found, result };
}

const plain = { weather: describe(WEATHER), clock: describe(CLOCK) };
const runnable = { weather: describe(WEATHER, forecast), clock: describe(CLOCK, noon) };

function describe({ description, schema }, execute) {
  return tool({ description, inputSchema: jsonSchema(schema), ...(execute && { execute }) });
}

const place = Output.object({ schema: jsonSchema(PLACE) });

const newest = {};
for (const name of NEWEST[provider] ?? []) {
  for (const reasoning of [undefined, "none", "minimal", "low", "high", "xhigh"]) {
    newest[`${name} ${reasoning ?? "unasked"}`] = async () => {
      const more = { tools: runnable, stopWhen: stepCountIs(5), name, reasoning };
      const { found, result } = await collected("loop", more);
      return { ...found, text: await result.text };
    };
  }
  newest[`${name} typed`] = async () => {
    const { found, result } = await collected("typed", { output: place, name });
    return { value: await result.output, finish: found.finish };
  };
}

await report({
  ...newest,
  whole: async () => ({ text: (await generateText({ model: model("sim"), prompt: "all", maxRetries: 0 })).text }),
  all: async () => (await collected("all", { tools: plain })).found,
  loop: async () => {
    const { found, result } = await collected("loop", { tools: runnable, stopWhen: stepCountIs(5) });
    return { ...found, text: await result.text };
  },
  "loop with thinking": async () => {
    const more = { tools: runnable, stopWhen: stepCountIs(5), reasoning: "low" };
    const { found, result } = await collected("loop", more);
    return { ...found, text: await result.text };
  },
  "demo loop": async () => {
    const { found, result } = await collected("How warm is it in Oslo?", {
      tools: { weather: runnable.weather },
      stopWhen: stepCountIs(5),
    });
    return { ...found, text: await result.text };
  },
  typed: async () => {
    const { found, result } = await collected("typed", { output: place });
    return { value: await result.output, finish: found.finish };
  },
  streamed: async () => {
    const { partialObjectStream, object } = streamObject({ model: model("sim"), prompt: "typed", schema: jsonSchema(PLACE) });
    let drafts = 0;
    for await (const _ of partialObjectStream) drafts += 1;
    return { value: await object, drafts };
  },
  "nothing stored": async () => {
    const stateless = { store: false, include: ["reasoning.encrypted_content"] };
    const { found, result } = await collected("loop", {
      tools: runnable,
      stopWhen: stepCountIs(5),
      reasoning: "low",
      name: NEWEST[provider]?.[0],
      providerOptions: { openai: stateless, xai: { store: false } },
    });
    return { ...found, text: await result.text };
  },
  "typed by tools": async () => {
    const more = { tools: { weather: plain.weather }, toolChoice: "required" };
    return (await collected("How warm is it in Oslo?", more)).found;
  },
  cut: async () => (await collected("cut")).found,
  broken: async () => (await collected("broken")).found,
  ...refusals(async (prompt) => (await collected(prompt)).found),
});
