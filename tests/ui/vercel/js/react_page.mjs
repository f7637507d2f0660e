// A page with React's useChat, which plays its visitor: asks, approves, reloads in the middle of the response,
// and reports what it shows in the end.

import { createElement as h, useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const api = "/api/chat";
const id = "in-chromium";
const isReloaded = sessionStorage.getItem("reloaded") === "yes";

const report = (found) => fetch("/report", { method: "POST", body: JSON.stringify(found) });
window.onerror = (message) => void report({ error: String(message) });
window.onunhandledrejection = ({ reason }) => void report({ error: String(reason) });

function Part({ part, onApprove }) {
  if (part.type === "text") return h("p", null, part.text);
  if (part.state === "approval-requested") return h("button", { onClick: () => onApprove(part.approval.id) }, "Yes");
  if (part.toolCallId) return h("code", null, `${part.type} ${part.state} ${JSON.stringify(part.output)}`);
  return null;
}

function Page({ saved }) {
  const { messages, sendMessage, addToolApprovalResponse, status, error } = useChat({
    id,
    messages: saved,
    resume: isReloaded,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  useEffect(() => {
    if (!isReloaded) void sendMessage({ text: "notes.txt" });
  }, []);
  useEffect(() => {
    document.querySelector("button")?.click();
    if (error) void report({ error: error.message });
    if (isReloaded) {
      if (status === "ready" && messages.length > 1)
        void report({ shown: document.querySelector("main").innerText.split("\n").filter(Boolean), messages });
    } else if (document.querySelectorAll("p")[2]?.innerText.length > 20) {
      sessionStorage.setItem("reloaded", "yes");
      location.reload();
    }
  });
  const onApprove = (approvalId) => void addToolApprovalResponse({ id: approvalId, approved: true });
  return h("main", null, ...messages.flatMap(({ id: message, parts }) =>
    parts.map((part, place) => h(Part, { key: `${message} ${place}`, part, onApprove }))));
}

const saved = await (await fetch(`${api}/${id}`)).json();
createRoot(document.body.appendChild(document.createElement("div"))).render(h(Page, { saved }));
