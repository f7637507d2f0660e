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

const CASES = {
  async text(page) {
    await page.chat.sendMessage({ text: "Hello" });
  },
  async reasoning(page) {
    await page.chat.sendMessage({ text: "Hello" });
  },
  async weather(page) {
    await page.chat.sendMessage({ text: "Oslo" });
  },
  async parallel(page) {
    await page.chat.sendMessage({ text: "Oslo" });
  },
  async progress(page) {
    await page.chat.sendMessage({ text: "notes" });
  },
  async broken(page) {
    await page.chat.sendMessage({ text: "x" });
  },
  async invalid(page) {
    await page.chat.sendMessage({ text: "x" });
  },
  async cut(page) {
    await page.chat.sendMessage({ text: "Tell me" });
  },
  async cutcall(page) {
    await page.chat.sendMessage({ text: "Oslo" });
  },
  async refused(page) {
    await page.chat.sendMessage({ text: "Hello" });
  },
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
  async stop(page) {
    const answered = page.chat.sendMessage({ text: "Tell me" });
    await until(() => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 10), "some text");
    await page.chat.stop();
    await answered;
  },
  async agent(page) {
    await page.chat.sendMessage({ text: "Oslo" });
  },
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
    const asked = page.chat.messages.at(-1).parts.find((part) => part.type === "data-llmstream-approval");
    page.extra.approvals = { [asked.data.approvalId]: { approved: true } };
    await page.chat.sendMessage();
  },
  // The page is reloaded in the middle of the response.
  async reload(page, again) {
    const answered = page.chat.sendMessage({ text: "Tell me" });
    await until(() => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 10), "some text");
    await page.chat.stop();
    await answered;
    const other = await again();
    await other.chat.resumeStream();
    return other;
  },
  // The same, in a response that continues a message.
  async comeback(page, again) {
    await page.chat.sendMessage({ text: "notes.txt" });
    const [{ approval }] = tools(page.chat);
    await page.chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await until(() => page.chat.messages.at(-1).parts.at(-1).text?.length > 10, "some text");
    await page.chat.stop();
    const other = await again();
    await other.chat.resumeStream();
    return other;
  },
  // Another tab stops the response.
  async halt(page, again, api) {
    const answered = page.chat.sendMessage({ text: "Tell me" });
    await until(() => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 10), "some text");
    await fetch(`${api}/${page.chat.id}/stop`, { method: "POST" });
    await answered;
  },
  // Nothing is in progress.
  async idle(page, again) {
    await page.chat.sendMessage({ text: "Hello" });
    const other = await again();
    await other.chat.resumeStream();
    return other;
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
    const answered = page.chat.sendMessage({ text: "Tell me" });
    await until(() => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 10), "some text");
    await page.chat.stop();
    await answered;
    await page.chat.sendMessage({ text: "Briefly" });
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
