// Plays what people do in a page, against the server in the first argument, with each package that follows.

import { open, result, tools, until } from "./page.mjs";

const [url, cases, ...packages] = process.argv.slice(2);

/** Answers the approvals of the last message, each with `{approved, reason}`, and reads the response. */
async function decide(page, ...answers) {
  const { chat, seen } = page;
  const before = seen.finishes.length;
  const waiting = tools(chat).filter((part) => part.state === "approval-requested");
  for (const [index, part] of waiting.entries())
    await chat.addToolApprovalResponse({ id: part.approval.id, ...answers[index] });
  await until(() => seen.finishes.length > before && chat.status !== "streaming", "the response to approvals");
}

/** Answers the approval that a page of npm ai 5 shows as a data part. */
async function decide5(page, answer) {
  const asked = page.chat.messages.at(-1).parts.find((part) => part.type === "data-llmstream-approval");
  page.extra.approvals = { [asked.data.approvalId]: answer };
  await page.chat.sendMessage();
}

/** A case of a visitor who only writes this. */
function says(text) {
  return async (page) => {
    await page.chat.sendMessage({ text });
  };
}

/** Asks, and returns once the first words of the response are there. */
async function begin(page) {
  const answered = page.chat.sendMessage({ text: "Tell me" });
  await until(() => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 10), "some text");
  return { answered }; // a promise by itself would be awaited with this function
}

/** Asks, and stops the response in the middle. */
async function stop(page) {
  const { answered } = await begin(page);
  await page.chat.stop();
  await answered;
}

/** The page after a reload in the middle of a response. */
async function resumed(again) {
  const other = await again();
  await other.chat.resumeStream();
  return other;
}

const CASES = {
  text: says("Hello"),
  reasoning: says("Hello"),
  weather: says("Oslo"),
  parallel: says("Oslo"),
  progress: says("notes"),
  broken: says("x"),
  invalid: says("x"),
  cut: says("Tell me"),
  cutcall: says("Oslo"),
  refused: says("Hello"),
  async approve(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true });
  },
  // The page has the history, and approvals are signed.
  async signed(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true });
  },
  async forged(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    tools(page.chat)[0].input.path = "/";
    await decide(page, { approved: true });
  },
  // One of two calls of a response may run, the other may not.
  async mixed(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true }, { approved: false, reason: "not today" });
  },
  // A call of a sub-agent waits.
  async nested(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true });
  },
  async nested_later(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const other = await again();
    await decide(other, { approved: true });
    return other;
  },
  async deny(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: false, reason: "not today" });
  },
  async edit(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const [{ approval }] = tools(page.chat);
    // 6.0.0 has no options at the answer itself.
    page.extra.approvals = { [approval.id]: { approved: true, arguments: { path: "draft.txt" } } };
    await decide(page, { approved: true });
  },
  async two(page) {
    await page.chat.sendMessage({ text: "Oslo" });
    await page.chat.sendMessage({ text: "Lima" });
  },
  // The model gives the same id to each of its calls, one after the other.
  twice: says("Oslo"),
  async again(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true });
  },
  async again_signed(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide(page, { approved: true });
  },
  async again_later(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const other = await again();
    await decide(other, { approved: true });
    return other;
  },
  async stop(page) {
    await stop(page);
  },
  agent: says("Oslo"),
  async ask_page(page) {
    await page.chat.sendMessage({ text: "Where am I?" });
    const [{ toolCallId }] = tools(page.chat);
    const before = page.seen.finishes.length;
    const output = { place: "Oslo" };
    await (page.chat.addToolOutput ?? page.chat.addToolResult)({ tool: "ask_page", toolCallId, output });
    await until(() => page.seen.finishes.length > before && page.chat.status === "ready", "the next step");
  },
  // Parts of npm ai 5 have no approvals: the page asks by a data part, and answers in the request.
  async approve5(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide5(page, { approved: true });
  },
  async deny5(page) {
    await page.chat.sendMessage({ text: "notes.txt" });
    await decide5(page, { approved: false, reason: "not today" });
  },
  async later5(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const other = await again();
    await decide5(other, { approved: true });
    return other;
  },
  // The page is reloaded in the middle of the response.
  async reload(page, again) {
    await stop(page);
    return resumed(again);
  },
  // The same, in a response that continues a message.
  async comeback(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const [{ approval }] = tools(page.chat);
    await page.chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await until(() => page.chat.messages.at(-1).parts.at(-1).text?.length > 10, "some text");
    await page.chat.stop();
    return resumed(again);
  },
  // Another tab stops the response.
  async halt(page, again, api) {
    const { answered } = await begin(page);
    await fetch(`${api}/${page.chat.id}/stop`, { method: "POST" });
    await answered;
  },
  // Nothing is in progress.
  async idle(page, again) {
    await page.chat.sendMessage({ text: "Hello" });
    return resumed(again);
  },
  // The page is reloaded while a call waits, and its visitor decides then.
  async later(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const other = await again();
    await decide(other, { approved: true });
    return other;
  },
  // The visitor stops the response and writes on.
  async interrupt(page) {
    await stop(page);
    await page.chat.sendMessage({ text: "Briefly" });
  },
  // Another tab stops a tool that runs; the visitor writes on.
  async halt_tool(page, again, api) {
    const answered = page.chat.sendMessage({ text: "x" });
    const runs = ({ state }) => state === "input-available";
    await until(() => page.chat.messages.at(-1)?.parts.some(runs), "the call");
    await fetch(`${api}/${page.chat.id}/stop`, { method: "POST" });
    await answered;
    await page.chat.sendMessage({ text: "no" });
  },
  // A response that broke off is asked for again.
  async retry(page) {
    await page.chat.sendMessage({ text: page.chat.id });
    await page.chat.regenerate();
  },
  async regenerate(page) {
    await page.chat.sendMessage({ text: "Oslo" });
    await page.chat.regenerate();
  },
};

for (const name of packages) {
  const ai = await import(name);
  await Promise.all(
    cases.split(",").map(async (play) => {
      const [api, id] = [`${url}/${name}/${play}`, `${name}-${play}`];
      let page = open(ai, api, { id });
      const again = async () => open(ai, api, { id, messages: await (await fetch(`${api}/${id}`)).json() });
      let failure;
      try {
        page = (await CASES[play](page, again, api)) ?? page;
      } catch (error) {
        failure = String(error?.stack ?? error);
      }
      console.log(JSON.stringify({ package: name, case: play, failure, ...result(page) }));
    }),
  );
}
process.exit(0); // transports keep connections open
