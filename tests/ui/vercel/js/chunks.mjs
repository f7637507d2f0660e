// Reads streams as lines of JSON, {"packages": [...], "body": "..."}, and answers each with what the packages
// have to say against it: chunks that their schema refuses, and errors of their own reading of the stream.

import { createInterface } from "node:readline";

/** The chunks of a body, read as the transport does. */
function chunksOf(body) {
  return body
    .split("\n\n")
    .filter((frame) => frame.startsWith("data: ") && frame !== "data: [DONE]")
    .map((frame) => JSON.parse(frame.slice(6)));
}

async function complaints(name, chunks) {
  const ai = await import(name);
  const schema = typeof ai.uiMessageChunkSchema === "function" ? ai.uiMessageChunkSchema() : ai.uiMessageChunkSchema;
  const found = [];
  for (const chunk of chunks) {
    const checked = await schema.validate(chunk);
    if (!checked.success) found.push({ name, chunk, error: String(checked.error.message).slice(0, 500) });
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

for await (const line of createInterface({ input: process.stdin })) {
  const { packages, body } = JSON.parse(line);
  const chunks = chunksOf(body);
  const answer = {};
  for (const name of packages) answer[name] = await complaints(name, chunks);
  console.log(JSON.stringify(answer));
}
