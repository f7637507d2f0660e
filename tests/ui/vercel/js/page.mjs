// A page without React: the chat of the package `ai` as `useChat` has it, over the package's own transport.

/** What the hooks keep in their state: the messages, the status and the error. */
class State {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), structuredClone(message), ...this.messages.slice(index + 1)];
  };
  snapshot = (value) => structuredClone(value);
}

/** Opens a page at one address; `seen` collects what its callbacks were given. */
export function open(ai, api, { id, messages = [] } = {}) {
  const extra = {}; // fields of the requests
  const seen = { errors: [], finishes: [], data: [] };
  class Chat extends ai.AbstractChat {}
  const chat = new Chat({
    id,
    state: new State(messages),
    transport: new ai.DefaultChatTransport({ api, body: () => extra }),
    sendAutomaticallyWhen: (given) =>
      (ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(given) ?? false) ||
      (isWaitingForResult(given.messages) && ai.lastAssistantMessageIsCompleteWithToolCalls(given)),
    onError: (error) => seen.errors.push(String(error?.message ?? error)),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      seen.finishes.push({ isAbort, isDisconnect, isError, finishReason }),
    onData: ({ type, data }) => seen.data.push({ type, data }),
  });
  return { chat, seen, extra };
}

/** Whether the last part is a call whose result the page has added itself. */
function isWaitingForResult(messages) {
  const last = messages.at(-1)?.parts.at(-1);
  return last?.toolCallId !== undefined && last.type === "tool-ask_page";
}

/** Waits until a condition holds; the server of the test is on the same machine. */
export async function until(condition, what) {
  const ends = Date.now() + 20_000;
  while (!condition()) {
    if (Date.now() > ends) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What the test compares. */
export function result({ chat, seen }) {
  return { status: chat.status, messages: chat.messages, ...seen };
}

/** The parts of the last message that belong to tools. */
export function tools(chat) {
  return chat.messages.at(-1).parts.filter((part) => part.toolCallId !== undefined);
}
