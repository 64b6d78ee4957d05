// Holds a session until its plan is done. Written by `provost init`, taken back by `provost init --undo`.
// The hook is awaited inside the agent's loop: a message added there makes the loop go on.
import { spawn } from "node:child_process"

const PROGRAM = {program}

const ask = (input) =>
  new Promise((resolve) => {
    const hook = spawn(PROGRAM, ["hook", "opencode"], { stdio: ["pipe", "pipe", "inherit"] })
    let said = ""
    hook.on("error", () => resolve({}))
    hook.stdin.on("error", () => {})
    hook.stdout.on("data", (part) => (said += part))
    hook.on("close", () => {
      try {
        resolve(JSON.parse(said))
      } catch {
        resolve({})
      }
    })
    hook.stdin.end(JSON.stringify(input))
  })

// A text is the end only if no tool is used after it.
const tools = new Map()

const used = async ({ sessionID }) => void tools.set(sessionID, (tools.get(sessionID) ?? 0) + 1)

export const Provost = async ({ client, directory }) => ({
  // Not every version calls both.
  "tool.execute.before": used,
  "tool.execute.after": used,
  "experimental.text.complete": async ({ sessionID }) => {
    const session = await client.session.get({ path: { id: sessionID } }).catch(() => undefined)
    // Helpers of a session have a parent, and no plan.
    if (session?.data?.parentID) return
    const { refuse, note } = await ask({ sessionID, directory, tools: tools.get(sessionID) ?? 0 })
    // For the person; without a screen there is nobody to be told.
    if (note) await client.tui?.showToast?.({ body: { title: "provost", message: note, variant: "info" } }).catch(() => {})
    if (!refuse) return
    const body = { noReply: true, parts: [{ type: "text", text: refuse }] }
    await client.session.prompt({ path: { id: sessionID }, body })
  },
})
