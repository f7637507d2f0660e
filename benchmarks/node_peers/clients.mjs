// JavaScript clients on the same bytes: node clients.mjs CLIENT URL EVENTS ROUNDS
// Prints {"us_per_event": median, "text": ..., "version": ...} as JSON.

import { readFileSync } from "node:fs";

const prompt = "Hi";

const clients = {
  async openai(url) {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: url, apiKey: "key", maxRetries: 0 });
    return async () => {
      let text = "";
      const messages = [{ role: "user", content: prompt }];
      for await (const chunk of await client.chat.completions.create({ model: "any", messages, stream: true })) {
        text += chunk.choices[0]?.delta.content ?? "";
      }
      return text;
    };
  },

  async anthropic(url) {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const client = new Anthropic({ baseURL: url, apiKey: "key", maxRetries: 0 });
    return async () => {
      let text = "";
      const messages = [{ role: "user", content: prompt }];
      const asked = { model: "any", max_tokens: 1024, messages, stream: true };
      for await (const event of await client.messages.create(asked)) {
        if (event.type === "content_block_delta") text += event.delta.text;
      }
      return text;
    };
  },

  // The model alone: what a provider package of the AI SDK makes of the wire.
  async "ai-model"(url) {
    const model = await aiModel(url);
    return async () => {
      let text = "";
      const asked = [{ role: "user", content: [{ type: "text", text: prompt }] }];
      const { stream } = await model.doStream({ prompt: asked });
      for await (const part of stream) if (part.type === "text-delta") text += part.delta;
      return text;
    };
  },

  async "ai-stream-text"(url) {
    const { streamText } = await import("ai");
    const model = await aiModel(url);
    return async () => {
      let text = "";
      for await (const delta of streamText({ model, prompt, maxRetries: 0 }).textStream) text += delta;
      return text;
    };
  },
};

const packages = {
  openai: "openai",
  anthropic: "@anthropic-ai/sdk",
  "ai-model": "@ai-sdk/openai-compatible",
  "ai-stream-text": "ai",
};

async function aiModel(url) {
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  return createOpenAICompatible({ name: "any", baseURL: url, apiKey: "key" })("any");
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const [client, url, events, rounds] = process.argv.slice(2);
const read = await clients[client](url);
const taken = [];
let text = "";
for (let round = 0; round <= rounds; round++) {
  const before = process.cpuUsage();
  text = await read();
  const { user, system } = process.cpuUsage(before);
  if (round > 0) taken.push((user + system) / events); // the first round warms up
}
const { version } = JSON.parse(readFileSync(`node_modules/${packages[client]}/package.json`, "utf8"));
console.log(JSON.stringify({ us_per_event: median(taken), text, package: packages[client], version }));
