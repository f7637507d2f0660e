// Runs the real client of AG-UI. Reads a line of JSON for each task, writes a line with what the client saw.
//
// {"url", "thread", "state", "messages", "interrupts", "runs": [...]}: one `HttpAgent` over several runs, which may
// begin as a page that was reloaded. Of a run:
//     messages   added before it
//     decide     the response to every pending interrupt
//     results    of the page's tools, by the name of the tool: a message for each pending call
//     tools, context, forwardedProps, resume: as they are
//     stopAt     type of the event at which the page stops the run
// {"check": [[event, ...], ...], "messages"}: each list through the client's own pipeline, without HTTP

import { createInterface } from "node:readline";
import { from } from "rxjs";

// The package to run. Releases up to 0.0.53 have no interrupts.
const { AbstractAgent, HttpAgent, buildResumeArray } = await import(process.argv[2] ?? "@ag-ui/client");

console.warn = (...words) => warned.push(words.map(String).join(" "));
console.error = () => {};
let warned = [];

// A page outlives a stream that fails after it was left; Node would end the process.
process.on("unhandledRejection", () => {});

class Played extends AbstractAgent {
  run() {
    return from(this.played);
  }
}

function watching(seen) {
  return {
    onEvent: ({ event }) => {
      seen.events.push(event);
    },
    onRunFinishedEvent: ({ event, outcome, pendingToolCallIds }) => {
      seen.outcome = outcome;
      seen.usage = event.usage;
      seen.pendingCalls = pendingToolCallIds;
    },
    onRunErrorEvent: ({ event }) => {
      seen.runError = event;
    },
    onRunFailed: ({ error }) => {
      seen.failed = { message: error.message, status: error.status, payload: error.payload };
    },
  };
}

async function runOnce(agent, run) {
  warned = [];
  const seen = { events: [] };
  agent.messages.push(...(run.messages ?? []));
  for (const [name, content] of Object.entries(run.results ?? {})) {
    const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
    for (const call of calls.filter((call) => call.function.name === name)) {
      agent.messages.push({ id: `r-${call.id}`, role: "tool", toolCallId: call.id, content });
    }
  }
  const { tools, context, forwardedProps } = run;
  let { resume } = run;
  if (run.decide !== undefined) {
    const answers = agent.pendingInterrupts.map((interrupt) => [interrupt.id, run.decide]);
    resume = buildResumeArray(agent.pendingInterrupts, Object.fromEntries(answers));
  }
  const watcher = watching(seen);
  if (run.stopAt !== undefined) {
    const see = watcher.onEvent;
    watcher.onEvent = ({ event }) => {
      see({ event });
      if (event.type !== run.stopAt) return;
      agent.abortRun();
      setTimeout(left, 300);
    };
  }
  // Aborted at an event of the last chunk, `runAgent` of 1.0.0 never returns; a page that has left does not wait.
  let left;
  const leaving = new Promise((resolve) => (left = resolve));
  try {
    await Promise.race([agent.runAgent({ tools, context, forwardedProps, resume }, watcher), leaving]);
  } catch (error) {
    seen.threw = error.message;
  }
  seen.pending = agent.pendingInterrupts;
  seen.warned = warned;
  return seen;
}

async function overHttp(task) {
  const { url, thread, state, messages } = task;
  const agent = new HttpAgent({ url, threadId: thread, initialState: state, initialMessages: messages });
  agent.pendingInterrupts = task.interrupts ?? [];
  const runs = [];
  for (const run of task.runs) {
    runs.push(await runOnce(agent, run));
  }
  return { runs, messages: agent.messages, state: agent.state };
}

async function played(events, messages) {
  const agent = new Played({ initialMessages: messages });
  agent.played = events;
  return { ...(await runOnce(agent, {})), messages: agent.messages };
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const answer = task.check ? [] : await overHttp(task);
  for (const events of task.check ?? []) {
    answer.push(await played(events, task.messages));
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
