// Reads lines of JSON, and answers each with what packages have to say against it. {"packages": [...],
// "body": "..."}: chunks that their schema refuses, and errors of their own reading of the stream.
// {"packages": [...], "messages": [...]}: why they do not take the messages of a page that loads.

import { createInterface } from "node:readline";

/** The chunks of a body, read as the transport does. */
function chunksOf(body) {
  return body
    .split("\n\n")
    .filter((frame) => frame.startsWith("data: ") && frame !== "data: [DONE]")
    .map((frame) => JSON.parse(frame.slice(6)));
}

/** Why the schema of a package refuses a chunk; undefined if it does not. */
async function refusal(ai, chunk) {
  if (ai.uiMessageChunkSchema === undefined) return refusalOfTransport(ai, chunk);
  const schema = typeof ai.uiMessageChunkSchema === "function" ? ai.uiMessageChunkSchema() : ai.uiMessageChunkSchema;
  const checked = await schema.validate(chunk);
  return checked.success ? undefined : checked.error;
}

/** The same, by the reading of a response: early releases of 5 do not export their schema. */
async function refusalOfTransport(ai, chunk) {
  const body = new Response(`data: ${JSON.stringify(chunk)}\n\n`).body;
  const reader = new ai.DefaultChatTransport().processResponseStream(body).getReader();
  try {
    while (!(await reader.read()).done);
  } catch (error) {
    return error;
  }
}

async function complaints(name, chunks) {
  const ai = await import(name);
  const found = [];
  for (const chunk of chunks) {
    const error = await refusal(ai, chunk);
    if (error) found.push({ name, chunk, error: String(error.message).slice(0, 500) });
  }
  const errors = [];
  const messages = ai.readUIMessageStream({
    stream: new ReadableStream({
      start(controller) {
        chunks.forEach((chunk) => controller.enqueue(chunk));
        controller.close();
      },
    }),
    onError: (error) => errors.push(String(error?.message ?? error)),
  });
  let message;
  for await (const read of messages) message = read;
  return { found, errors, message };
}

async function refused(name, messages) {
  const { validateUIMessages } = await import(name);
  try {
    return { messages: await validateUIMessages({ messages }) };
  } catch (error) {
    return { error: String(error.message).slice(0, 1000) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { packages, body, messages } = JSON.parse(line);
  const answer = {};
  for (const name of packages)
    answer[name] = messages ? await refused(name, messages) : await complaints(name, chunksOf(body));
  console.log(JSON.stringify(answer));
}
