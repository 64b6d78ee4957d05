// Holds a session until its plan is done. Written by `provost init`, taken back by `provost init --undo`.
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

// `opencode run` ends with the turn, so it is held inside the turn, after each text. A text is the end only if
// no tool is used after it.
const ENDS_WITH_THE_TURN = process.argv.slice(2).includes("run")
const tools = new Map()

const used = async ({ sessionID }) => void tools.set(sessionID, (tools.get(sessionID) ?? 0) + 1)

export const Provost = async ({ client, directory }) => {
  // Helpers of a session have a parent, and no plan.
  const isHelper = async (id) => {
    const session = await client.session.get({ path: { id } }).catch(() => undefined)
    return Boolean(session?.data?.parentID)
  }
  const last = async (id) => {
    const messages = await client.session.messages({ path: { id }, query: { limit: 1 } }).catch(() => undefined)
    return messages?.data?.at(-1)?.info
  }
  const judged = async (input) => {
    const { refuse, note } = await ask({ directory, ...input })
    // For the person; without a screen there is nobody to be told.
    if (note) await client.tui?.showToast?.({ body: { title: "provost", message: note, variant: "info" } }).catch(() => {})
    return refuse
  }
  const inside = {
    // Not every version calls both.
    "tool.execute.before": used,
    "tool.execute.after": used,
    // This is awaited inside the agent's loop: a message added here makes the loop go on.
    "experimental.text.complete": async ({ sessionID }) => {
      if (await isHelper(sessionID)) return
      const refuse = await judged({ sessionID, tools: tools.get(sessionID) ?? 0 })
      if (!refuse) return
      const body = { noReply: true, parts: [{ type: "text", text: refuse }] }
      await client.session.prompt({ path: { id: sessionID }, body })
    },
  }
  const after = {
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { sessionID } = event.properties
      const ended = await last(sessionID)
      // A turn that a person or an error ended is not sent back.
      if (ended?.role !== "assistant" || ended.error || (await isHelper(sessionID))) return
      const refuse = await judged({ sessionID })
      // The person may have written meanwhile.
      if (!refuse || (await last(sessionID))?.id !== ended.id) return
      const model = { providerID: ended.providerID, modelID: ended.modelID }
      const body = { agent: ended.mode, model, parts: [{ type: "text", text: refuse }] }
      await client.session.prompt({ path: { id: sessionID }, body }).catch(() => {})
    },
  }
  return ENDS_WITH_THE_TURN ? inside : after
}
