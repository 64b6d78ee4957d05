// People sign in at a real provider, decide, and leave. Prints a line for each thing that went well.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { check, close, isAccessible, isUnharmed, open, place, provost, read, sees, serve, shoot, stranger, write } from "./house.mjs";

const well = (words) => console.log(`well: ${words}`);
const { PROVIDER, SECRET } = process.env;

/** Starts the provider; returns its issuer, and a function that sends it a line. */
async function startProvider() {
  const script = new URL("provider.mjs", import.meta.url).pathname;
  const child = spawn("node", [script], { env: { ...process.env, MODULES: PROVIDER } });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { issuer } = JSON.parse((await lines.next()).value);
  const tell = async (line) => { child.stdin.write(`${line}\n`); await lines.next(); };
  return { child, issuer, tell };
}

const configuration = (issuer) => `${read("provost.toml")}
[serve.oidc]
issuer = "${issuer}"
client_id = "provost-RS256"
client_secret_file = ".git/secret"
name = "Example"
scopes = ["openid", "email", "groups"]
[[serve.oidc.allow]]
group = "reviewers"
scope = "decide"
[[serve.oidc.allow]]
group = "viewers"
scope = "view"
`;

/** Signs in from a page that asks for it. */
async function signIn(page, name) {
  await page.click("text=Sign in with Example");
  await page.fill("[name=login]", name);
  await page.click("text=Continue");
}

const provider = await startProvider();
try {
  write(".git/secret", `${SECRET}\n`);
  write("provost.toml", configuration(provider.issuer));
  await open();
  await serve();
  await provider.tell(place("/sign-in/callback"));
  const id = JSON.parse((await provost(0, "log", "--json")).split("\n")[0]).plan;
  const gate = place(`/plans/${id}/gate`);

  const alice = await stranger();
  await alice.goto(gate);
  await sees(alice, "h1", "Sign in");
  await isAccessible(alice);
  await shoot(alice, "sign-in");
  await signIn(alice, "alice");
  await alice.waitForURL(gate);
  await alice.click("button[value=approve]");
  await sees(alice, "main", "The plan is approved");
  const events = (await provost(0, "log", "--json")).trim().split("\n").map((line) => JSON.parse(line));
  const by = events.find((event) => event.event === "GATE_APPROVED").details.by.person;
  check(/^alice@example\.com \(oidc:[0-9a-f]{16}\)$/.test(by), `approved by ${by}`);
  well("alice signed in, came to the decision, and the log names her");

  await alice.reload();
  await sees(alice, ".who a", "alice@example.com");
  await alice.goto(place("/sessions"));
  await sees(alice, ".sessions td", by);
  await isAccessible(alice);
  await shoot(alice, "sign-in-sessions");
  well("a reload keeps the session, and it is listed");

  const eve = await stranger();
  await eve.goto(place("/inbox"));
  await signIn(eve, "eve");
  await sees(eve, ".note.bad", "eve@example.com may not use this server");
  await isAccessible(eve);
  await shoot(eve, "sign-in-refused");
  await eve.goto(place("/inbox"));
  await sees(eve, "h1", "Sign in");
  const vera = await stranger();
  await vera.goto(gate);
  await signIn(vera, "vera");
  await vera.waitForURL(gate);
  await sees(vera, ".who", "may only look");
  well("eve stays out, and vera may only look");

  await alice.click("text=Leave");
  await sees(alice, "h1", "You are logged out");
  await isAccessible(alice);
  await shoot(alice, "sign-in-left");
  await alice.goto(gate);
  await sees(alice, "h1", "Sign in");
  for (const page of [alice, eve, vera]) { await isUnharmed(page); }
  well("alice signed out");
} finally {
  await close();
  provider.child.kill();
}
