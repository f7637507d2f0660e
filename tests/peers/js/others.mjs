// Five more clients, one named by the second argument: a stream, its calls, and what a failure is.
import { CLOCK, KEY, WEATHER, forecast, noon, report, url } from "./report.mjs";

const TOOLS = [WEATHER, CLOCK];
const functions = TOOLS.map(({ name, description, schema }) => ({
  type: "function",
  function: { name, description, parameters: schema },
}));
const answered = (name, input) => (name === "weather" ? forecast(input) : noon());
const parsed = (input) => (typeof input === "string" ? JSON.parse(input || "{}") : input);

// Each: a function of the conversation, that returns text, calls [id, name, input] and the finish reason.
const CLIENTS = {
  async ollama() {
    const { Ollama } = await import("ollama");
    const client = new Ollama({ host: url, headers: { authorization: `Bearer ${KEY}` } });
    return async (messages) => {
      const found = { text: "", calls: [], finish: null };
      for await (const part of await client.chat({ model: "sim", messages, tools: functions, stream: true })) {
        found.text += part.message.content;
        for (const { function: call } of part.message.tool_calls ?? [])
          found.calls.push([null, call.name, call.arguments]);
        found.finish = part.done_reason ?? found.finish;
      }
      return found;
    };
  },
  async groq() {
    const { default: Groq } = await import("groq-sdk");
    // It puts /openai before the path by itself.
    const fetch_ = (address, init) => fetch(String(address).replace("/openai/v1", "/openai-chat/v1"), init);
    const client = new Groq({ apiKey: KEY, baseURL: url, maxRetries: 0, fetch: fetch_ });
    return async (messages) => {
      const found = { text: "", calls: [], finish: null };
      const asked = { model: "sim", messages, tools: functions, stream: true };
      for await (const { choices } of await client.chat.completions.create(asked)) {
        const [choice] = choices;
        found.text += choice?.delta.content ?? "";
        for (const { index, id, function: call } of choice?.delta.tool_calls ?? []) {
          const open = (found.calls[index] ??= [id, "", ""]);
          open[1] += call.name ?? "";
          open[2] += call.arguments ?? "";
        }
        found.finish = choice?.finish_reason ?? found.finish;
      }
      return found;
    };
  },
  async mistral() {
    const { Mistral } = await import("@mistralai/mistralai");
    const client = new Mistral({ apiKey: KEY, serverURL: `${url}/mistral`, retryConfig: { strategy: "none" } });
    const renamed = ({ tool_calls: toolCalls, tool_call_id: toolCallId, ...message }) => ({
      ...message,
      ...(toolCalls && { toolCalls }),
      ...(toolCallId && { toolCallId }),
    });
    return async (messages) => {
      const found = { text: "", calls: [], finish: null };
      const asked = { model: "sim", messages: messages.map(renamed), tools: functions };
      for await (const { data } of await client.chat.stream(asked)) {
        const [choice] = data.choices;
        const { content } = choice?.delta ?? {};
        found.text += typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
        for (const { id, function: call } of choice?.delta.toolCalls ?? [])
          found.calls.push([id, call.name, call.arguments]);
        found.finish = choice?.finishReason ?? found.finish;
      }
      return found;
    };
  },
  async cohere() {
    const { CohereClientV2 } = await import("cohere-ai");
    const client = new CohereClientV2({ token: KEY, environment: url, maxRetries: 0 });
    const renamed = ({ tool_calls: toolCalls, tool_call_id: toolCallId, ...message }) => ({
      ...message,
      ...(toolCalls && { toolCalls }),
      ...(toolCallId && { toolCallId }),
    });
    return async (messages) => {
      const found = { text: "", calls: [], finish: null };
      const asked = { model: "sim", messages: messages.map(renamed), tools: functions };
      for await (const event of await client.chatStream(asked, { maxRetries: 0 })) {
        const { message } = event.delta ?? {};
        if (event.type === "content-delta") found.text += message.content.text ?? "";
        if (event.type === "tool-call-start")
          found.calls.push([message.toolCalls.id, message.toolCalls.function.name, ""]);
        if (event.type === "tool-call-delta") found.calls.at(-1)[2] += message.toolCalls.function.arguments;
        if (event.type === "message-end") {
          found.finish = event.delta.finishReason;
          if (found.finish === "ERROR") throw new Error(event.delta.error ?? "the stream ended with an error");
        }
      }
      return found;
    };
  },
  async bedrock() {
    const { BedrockRuntimeClient, ConverseStreamCommand } = await import("@aws-sdk/client-bedrock-runtime");
    const { NodeHttpHandler } = await import("@smithy/node-http-handler");
    const client = new BedrockRuntimeClient({
      requestHandler: new NodeHttpHandler(), // by itself it speaks HTTP/2
      region: "eu-north-1",
      endpoint: url,
      maxAttempts: 1,
      credentials: { accessKeyId: KEY, secretAccessKey: "not-used" },
    });
    const toolConfig = {
      tools: TOOLS.map(({ name, description, schema }) => ({
        toolSpec: { name, description, inputSchema: { json: schema } },
      })),
    };
    const converted = (message) =>
      message.role === "tool"
        ? { toolResult: { toolUseId: message.tool_call_id, content: [{ text: message.content }] } }
        : { text: message.content };
    return async (messages) => {
      const turns = [];
      for (const message of messages) {
        const calls = (message.tool_calls ?? []).map(({ id, function: call }) => ({
          toolUse: { toolUseId: id, name: call.name, input: JSON.parse(call.arguments) },
        }));
        const role = message.role === "assistant" ? "assistant" : "user";
        const content = calls.length ? calls : [converted(message)];
        if (turns.at(-1)?.role === role) turns.at(-1).content.push(...content);
        else turns.push({ role, content });
      }
      const found = { text: "", calls: [], finish: null };
      const { stream } = await client.send(new ConverseStreamCommand({ modelId: "sim", messages: turns, toolConfig }));
      for await (const event of stream) {
        const start = event.contentBlockStart?.start?.toolUse;
        if (start) found.calls.push([start.toolUseId, start.name, ""]);
        const delta = event.contentBlockDelta?.delta;
        found.text += delta?.text ?? "";
        if (delta?.toolUse) found.calls.at(-1)[2] += delta.toolUse.input;
        found.finish = event.messageStop?.stopReason ?? found.finish;
      }
      return found;
    };
  },
};

const ask = await CLIENTS[process.argv[3]]();
const user = (content) => ({ role: "user", content });

function shown({ text, calls, finish }) {
  return { text, calls: calls.map(([, name, input]) => [name, parsed(input)]), finish };
}

async function loop() {
  const messages = [user("loop")];
  const seen = [];
  for (let step = 1; ; step += 1) {
    const found = await ask(messages);
    if (found.calls.length === 0) return { text: found.text, calls: seen, steps: step };
    seen.push(...shown(found).calls);
    const input = (given) => (process.argv[3] === "ollama" ? given : JSON.stringify(parsed(given)));
    messages.push({
      role: "assistant",
      content: "",
      tool_calls: found.calls.map(([id, name, given]) => ({
        ...(id && { id }),
        type: "function",
        function: { name, arguments: input(given) },
      })),
    });
    for (const [id, name, given] of found.calls)
      messages.push({
        role: "tool",
        content: answered(name, parsed(given)),
        ...(id ? { tool_call_id: id } : { tool_name: name }),
      });
  }
}

await report({
  all: async () => shown(await ask([user("all")])),
  loop,
  cut: async () => shown(await ask([user("cut")])),
  broken: async () => shown(await ask([user("broken")])),
  "refuse 429": () => ask([user("refuse 429")]),
  "refuse 503": () => ask([user("refuse 503")]),
});
