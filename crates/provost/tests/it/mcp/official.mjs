// The official TypeScript client: lists, calls, subscribes and cancels at `provost mcp`. It checks every answer
// against the schema that the server gave for it.

import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const [folder, program, variables] = process.argv.slice(2);
const load = createRequire(`${folder}/package.json`);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { ResourceUpdatedNotificationSchema } = load("@modelcontextprotocol/sdk/types.js");

const client = new Client({ name: "official", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command: program, args: ["mcp"], env: JSON.parse(variables) }));
const { tools } = await client.listTools();
console.log("tools", tools.length, tools.every((tool) => tool.outputSchema && tool.annotations.title));

const call = async (name, args, options) => {
  const answer = await client.callTool({ name, arguments: args }, undefined, options);
  const data = answer.structuredContent;
  console.log(name, answer.isError ? "refused" : "ok", data?.plan ?? "", data?.stage ?? "", data?.step?.state ?? "");
  return answer;
};

let tell;
const updated = new Promise((resolve) => (tell = resolve));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => tell(params.uri));
await client.subscribeResource({ uri: "provost://plans/write-it" });

const check = "test -s out.txt";
const waits = "while ! test -f go; do sleep 0.05; done";
await call("plan_create", {
  objective: "Write it",
  steps: [{ title: "Write out.txt", check }, { title: "Wait", check: waits, guard: true }],
});
console.log("updated", await updated);
await call("step_update", { step: 1, status: "done", evidence: "none yet" });
writeFileSync("out.txt", "x");
await call("step_update", { step: 1, status: "done", evidence: "out.txt" });

// Cancelled as soon as the check runs; the next call gets its result.
const abort = new AbortController();
const options = { signal: abort.signal, onprogress: () => abort.abort("enough") };
const cancelled = await call("step_update", { step: 2, status: "done", evidence: "waited" }, options).catch(() => "cancelled");
console.log("cancelled", cancelled);
writeFileSync("go", "");
const next = await call("plan_next", {});
console.log("next", next.content[0].text.includes("Step 2 has passed"), next.structuredContent.finished);

const { contents } = await client.readResource({ uri: "provost://plans/write-it" });
console.log("resource", contents[0].mimeType, contents[0].text.split("\n")[0]);
const prompt = await client.getPrompt({ name: "what_is_open" });
console.log("prompt", prompt.messages[0].content.text.includes("- none"));
await client.close();
