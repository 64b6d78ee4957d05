// What people do in a browser, from the link to the proof. Prints a line for each thing that went well.
import {
  check, close, isAccessible, isUnharmed, kill, open, person, place, provost, read, sees, serve, shoot, write,
} from "./house.mjs";

const idOf = async (plan) => JSON.parse(await provost(0, "log", plan, "--json").then((text) => text.split("\n")[0])).plan;
const well = (words) => console.log(`well: ${words}`);

/** From the gate to the proof, on pages that nobody loads again. */
async function fromLinkToProof(ada) {
  const id = await idOf("PLAN.md");
  await sees(ada, ".plans li", "Ship the thing");
  await ada.goto(place(`/plans/${id}/gate`));
  await sees(ada, "p", "all of it is new");
  await ada.click("button[value=approve]");
  await sees(ada, "main", "The plan is approved");

  // The law changes, and what changed is what is approved.
  write("PLAN.md", read("PLAN.md").replace("test -f out/1", "test -s out/1"));
  await ada.goto(place(`/plans/${id}/gate`));
  await sees(ada, "ul.changes li", "step 1 contract: test -f out/1 [exit_code == 0] -> test -s out/1 [exit_code == 0]");
  await ada.click("#lines summary");
  await sees(ada, ".diff ins", "test -s out/1");
  check(await ada.locator(".diff ins").count() === 1, "marks of the harness are shown as changes");
  await isAccessible(ada);
  await shoot(ada, "gate");
  await ada.click("button[value=approve]");
  await sees(ada, "main", "The plan is approved");
  well("a plan was approved by its link, and again with what had changed");

  await ada.goto(place(`/plans/${id}`));
  await ada.evaluate(() => { window.since = "the same page"; });
  const inbox = await ada.context().newPage();
  await inbox.goto(place("/inbox"));
  await inbox.evaluate(() => { window.since = "the same page"; });
  const run = provost(4, "run", "PLAN.md");
  await sees(ada, "#step-1 .word", "in progress");
  await sees(ada, ".note.run a", "live output");
  await ada.evaluate(() => { document.querySelector(".graph g").kept = true; });
  await sees(ada, "#step-1 .word", "passed");
  await sees(ada, ".node.good .state", "1 ✓ passed");
  check(await ada.evaluate(() => document.querySelector(".graph g").kept), "what has not changed was taken away");
  await sees(ada, "#step-2 .word", "blocked");
  await run;
  check(await ada.evaluate(() => window.since) === "the same page", "the page was loaded again");
  well("a run was watched live");

  // The new item is listed, and the one that is open stays open.
  await sees(inbox, "nav.items a", "Write the second part");
  check(!(await inbox.locator("article").innerText()).includes("Write the second part"), "another item took the place of the open one");
  check(await inbox.evaluate(() => window.since) === "the same page", "the inbox was loaded again");
  await inbox.click("nav.items a:has-text('Write the second part')");
  await sees(inbox, "article", "all of it is done");
  await isAccessible(inbox);
  await shoot(inbox, "inbox");
  await inbox.fill("[name=note]", "do not let it through");
  await inbox.press("[name=note]", "Enter");
  check((await inbox.inputValue("[name=note]")).includes("\n"), "Enter is not a new line");
  // An answer that ends the plan is asked for again, with the reason that was given.
  await inbox.click("button[value=abort]");
  await sees(inbox, "h1", "are you sure?");
  check((await inbox.inputValue("[name=note]")).startsWith("do not let it through"), "the reason is gone");
  await isAccessible(inbox);
  await inbox.click("text=No, go back");
  await sees(inbox, "article", "all of it is done");
  await inbox.fill("[name=note]", "try it once more");
  // What somebody is writing stays, whatever happens meanwhile.
  await provost(0, "ask", "PLAN-other.md", "--question", "why so?");
  await inbox.waitForFunction(() => document.querySelector("#live").textContent.startsWith("changed"));
  check(await inbox.inputValue("[name=note]") === "try it once more", "what was written is gone");
  await inbox.click("button[value=retry]");
  await inbox.waitForURL(place(`/inbox?answered=${id}`));
  await sees(inbox, ".note", "try it once more");
  await inbox.locator("nav.items a", { hasText: "Write the second part" }).waitFor({ state: "detached" });
  await provost(0, "run", "PLAN.md");
  await sees(ada, ".word", "done");
  await ada.goto(place(`/plans/${id}/timeline`));
  await sees(ada, ".timeline .bar.pause title", "waited");
  await sees(ada, ".timeline .axis text", "0 ms");
  await isAccessible(ada);
  await shoot(ada, "timeline");
  const events = (await provost(0, "log", "PLAN.md", "--json")).trim().split("\n").map((line) => JSON.parse(line));
  const answer = events.find((event) => event.event === "HUMAN_ANSWERED");
  check(JSON.stringify(answer.details).includes("ada"), `nobody answered: ${JSON.stringify(answer)}`);
  well("an escalation was answered, and the plan is done");

  await ada.goto(place(`/plans/${id}/proofs`));
  await sees(ada, ".word", "sound");
  await sees(ada, ".sheet header", "signature good");
  await isAccessible(ada);
  await shoot(ada, "proofs");
  await ada.goto(place(`/plans/${id}/steps/2?attempt=1`));
  await sees(ada, "#attempt-1 .versus", "all of it is done");
  await sees(ada, "#attempt-1 .versus .word", "broke");
  await ada.click("nav[aria-label=Attempts] a:has-text('Attempt 2')");
  await sees(ada, "#attempt-2 .word", "passed");
  if (process.env.HAS_TREES) { await sees(ada, ".diff ins", "the second part"); }
  if (process.env.HAS_TREES) { await sees(ada, ".diff ins", "[redacted:github-token]"); }
  check(!(await ada.content()).includes("ghp_0123456789"), "a secret is shown");
  await ada.click("#transcript-2 summary");
  await sees(ada, "#transcript-2 pre", "wrote out/2");
  await isAccessible(ada);
  await shoot(ada, "step");
  await ada.goto(place(`/plans/${id}/steps/2?attempt=1`));
  await ada.click("#attempt-1 a:has-text('Whole transcript')");
  await sees(ada, "main pre", "all of it is done");
  await isAccessible(ada);
  well("the proof was seen, and what each attempt changed");
  const branch = read(".git/HEAD").trim().replace("ref: refs/heads/", "");
  await provost(0, "commit", "PLAN.md", "--branch", branch);
  return id;
}

/** Of two who approve the same at once, one does. */
async function twoAtOnce(ada) {
  const id = await idOf("PLAN-other.md");
  const second = await person("second");
  // Neither page hears of the other's decision before both have clicked.
  await Promise.all([ada, second].map((page) => page.route("**/api/events*", (route) => route.abort())));
  await Promise.all([ada, second].map((page) => page.goto(place(`/plans/${id}/gate`))));
  await Promise.all([ada, second].map((page) => page.click("button[value=approve]")));
  await Promise.all([ada, second].map((page) => page.unroute("**/api/events*")));
  const told = await Promise.all([ada, second].map((page) => page.locator("main").innerText()));
  const won = told.filter((text) => text.includes("The plan is approved"));
  const lost = told.filter((text) => /(ada|second) already approved revision/.test(text));
  check(won.length === 1 && lost.length === 1, `two at once:\n${told.join("\n---\n")}`);
  const loser = told[0].includes("already approved revision") ? ada : second;
  await isAccessible(loser);
  await loser.click("text=Look again");
  await sees(loser, "main", "The plan is approved");
  await second.context().close();
  well("of two at once one approved, and the other was told by whom");
}

/** Where two have to approve, the first yes is shown to everybody, counts once, and the second opens the gate. */
async function byTwo(ada) {
  const config = read("provost.toml");
  write("provost.toml", `${config}\n[gate]\napprovals = 2\n`);
  const id = await idOf("PLAN-quorum.md");
  const second = await person("second");
  await Promise.all([ada, second].map((page) => page.goto(place(`/plans/${id}/gate`))));
  await second.evaluate(() => { window.since = "the same page"; });
  await ada.click("button[value=approve]");
  await sees(ada, "main", "1 of 2 approvals (ada)");
  await sees(ada, "main", "You have approved it. Others must approve it too.");
  check(await ada.locator("button[value=approve]").count() === 0, "somebody may approve twice");
  await isAccessible(ada);
  await shoot(ada, "gate-of-two");
  await sees(second, "main", "1 of 2 approvals (ada)");
  await second.click("button[value=approve]");
  await sees(second, "main", "The plan is approved");
  await sees(ada, "main", "The plan is approved");
  const events = (await provost(0, "log", "PLAN-quorum.md", "--json", "--event", "GATE_APPROVED")).trim().split("\n");
  const names = events.map((line) => JSON.parse(line).details.by.person);
  check(JSON.stringify(names) === '["ada","second"]', `approved by ${names}`);
  await second.context().close();
  write("provost.toml", config);
  well("two people approved what takes two");
}

/** A page that is open while its server is gone catches up by itself. */
async function restarted(ada) {
  const id = await idOf("PLAN-third.md");
  await ada.goto(place(`/plans/${id}`));
  await sees(ada, "#live", "live");
  await ada.evaluate(() => { window.since = "the same page"; });
  await kill();
  await ada.waitForFunction(() => document.querySelector("#live").textContent !== "live");
  await provost(0, "ask", "PLAN-third.md", "--question", "is anybody there?");
  await serve();
  await sees(ada, ".wait", "is anybody there?");
  await sees(ada, "#live", "live");
  check(await ada.evaluate(() => window.since) === "the same page", "the page was loaded again");
  well("a page outlived its server and missed nothing");
}

/** What is written in the page and has errors comes back with them; what has none is in the file. */
async function amended(ada) {
  const id = await idOf("PLAN-third.md");
  await ada.goto(place(`/plans/${id}/gate`));
  await ada.click("#amend summary");
  const before = await ada.inputValue("#text");
  const broken = before.replace("**contract:**", "**contrakt:**");
  await ada.fill("#text", broken);
  await ada.click("button[value=amend]");
  await sees(ada, "[role=alert]", "The plan was not changed");
  check((await ada.inputValue("#text")).includes("**contrakt:**"), "what was written is gone");
  check(!read("PLAN-third.md").includes("contrakt"), "a plan with errors was written");
  await isAccessible(ada);
  await ada.fill("#text", before.replace("# The third", "# The third, better"));
  await ada.click("button[value=amend]");
  await sees(ada, "h1", "The third, better");
  check(read("PLAN-third.md").includes("# The third, better"), "the file was not changed");
  well("a plan was amended in the page");
}

/** Nothing in a plan or of an agent is obeyed, on any page. */
async function hostile(ada) {
  const id = await idOf("PLAN-hostile.md");
  write("out/mine.txt", "a person's own work\n");
  await ada.goto(place(`/plans/${id}/gate`));
  await sees(ada, "main", "out/mine.txt");
  await isAccessible(ada);
  await shoot(ada, "gate-uncommitted");
  check(await ada.locator("button[value=approve]").count() === 0, "it can be approved beside work of others");
  await ada.click("button[value=include]");
  await sees(ada, "main", "The plan is approved");
  well("a file that was not committed was included knowingly");
  await provost(0, "run", "PLAN-hostile.md");
  const pages = [
    "/", "/inbox", "/log", `/log?plan=${id}`, `/plans/${id}`, `/plans/${id}/gate`, `/plans/${id}/proofs`,
    `/plans/${id}/steps`, `/plans/${id}/changes`, `/plans/${id}/timeline`, `/plans/${id}/text`, `/plans/${id}/steps/1?diff=split`,
    `/plans/${id}/steps/1`, `/compare?one=${id}&other=${id}`, "/machine", "/?name=%22%3E%3Cscript%3Ewindow.pwned%3D1%3C/script%3E",
    "/log?event=%22%3E%3Cimg src=x onerror=window.pwned=1%3E", "/plans/%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E",
  ];
  for (const path of pages) {
    await ada.goto(place(path));
    await ada.evaluate(() => { for (const part of document.querySelectorAll("details")) { part.open = true; } });
    await ada.waitForTimeout(50);
    await isUnharmed(ada);
    const links = await ada.locator("a").evaluateAll((all) => all.map((each) => each.getAttribute("href")));
    check(links.every((link) => /^[/#]|^$/.test(link)), `${path}: a link leads elsewhere: ${links}`);
    check(await ada.locator("main script, main img, main iframe, main b").count() === 0, `${path}: a text became markup`);
    await isAccessible(ada);
  }
  await shoot(ada, "nothing-there");
  await ada.goto(place(`/plans/${id}/steps/1`));
  await sees(ada, ".versus pre", "␛[2J<U+202E><script>window.pwned=1</script><img");
  if (process.env.HAS_TREES) { await sees(ada, ".diff ins", "<script>window.pwned=1</script>"); }
  await ada.goto(place(`/plans/${id}`));
  await sees(ada, "h1", "<img src=x onerror=");
  await shoot(ada, "hostile");
  well(`hostile texts stayed texts on ${pages.length} pages`);
}

/** The agenda by keyboard alone, filtered as one types. */
async function agenda(ada) {
  await ada.goto(place("/"));
  await ada.keyboard.press("/");
  await ada.keyboard.type("ship");
  await ada.waitForFunction(() => document.querySelectorAll(".plans li").length === 1);
  check(ada.url() === place("/?name=ship"), `the filter is not in the URL: ${ada.url()}`);
  check(await ada.inputValue("#name") === "ship", "what was typed is gone");
  await ada.reload();
  check(await ada.locator(".plans li").count() === 1, "the filter of the URL is not used");
  await ada.keyboard.press("?");
  check(await ada.locator("#keys").isVisible(), "the list of keys is not shown");
  await isAccessible(ada);
  await ada.keyboard.press("Escape");
  await ada.keyboard.press("j");
  await ada.keyboard.press("Enter");
  await sees(ada, "h1", "Ship the thing");
  well("the agenda was filtered and walked by keyboard");
}

/** The graph by keyboard alone, small and large. */
async function keyboard(ada, id) {
  await ada.goto(place(`/plans/${id}`));
  await ada.keyboard.press("Tab");
  check(await ada.evaluate(() => document.activeElement.className) === "skip", "the first stop is not the way to the content");
  await ada.keyboard.press("Enter");
  for (let stop = 0; stop < 40; stop += 1) {
    await ada.keyboard.press("Tab");
    if (await ada.evaluate(() => document.activeElement.getAttribute("class")?.startsWith("node"))) { break; }
  }
  check(await ada.evaluate(() => document.activeElement.querySelector("title").textContent) === "1 ✓ passed Write the first part", "no step was reached");
  await ada.keyboard.press("Enter");
  await ada.waitForURL(place(`/plans/${id}/steps/1`));
  await ada.goBack();
  await ada.click("button[data-zoom=in]");
  check(await ada.evaluate(() => document.querySelector(".graph svg").classList.contains("zoomed")), "the graph is no larger");
  await ada.click("button[data-zoom=fit]");
  await isAccessible(ada);
  await shoot(ada, "plan");
  const large = await idOf("PLAN-large.md");
  await ada.goto(place(`/plans/${large}`));
  check(await ada.locator(".node").count() === 200, "not every step is drawn");
  const overlap = await ada.evaluate(() => {
    const boxes = [...document.querySelectorAll(".node rect")].map((each) => each.getBoundingClientRect());
    return boxes.some((a, at) => boxes.slice(at + 1).some((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
  });
  check(!overlap, "steps stand on one another");
  const cut = await ada.evaluate(() => [...document.querySelectorAll(".node")].some((node) => {
    const room = node.querySelector("rect").getBoundingClientRect().right;
    return [...node.querySelectorAll("text")].some((text) => text.getBoundingClientRect().right > room);
  }));
  check(!cut, "a title is longer than its step");
  await isAccessible(ada);
  await ada.locator(".graph").screenshot({ path: `${process.env.SHOTS}/graph-large.png` });
  await ada.pdf({ path: `${process.env.SHOTS}/plan-large.pdf` });
  well("the graph was walked by keyboard, and 200 steps are readable");
}

/** Without scripts everything but liveness is there. */
async function withoutScripts(id) {
  const page = await person("third", { javaScriptEnabled: false });
  const third = await idOf("PLAN-third.md");
  for (const path of ["/", "/inbox", "/log", `/plans/${id}`, "/compare", "/machine"]) {
    const answer = await page.goto(place(path));
    check(answer.status() === 200, `${path}: ${answer.status()}`);
  }
  await page.goto(place(`/plans/${third}/gate`));
  await page.click("#say summary");
  await page.fill("#words", "not like this");
  await page.click("button[value=reject]");
  check((await page.locator("main").innerText()).includes("This revision was rejected: not like this"), "it was not rejected");
  await page.context().close();
  well("without scripts a plan was rejected");
}

async function otherPages(ada, id) {
  const other = await idOf("PLAN-other.md");
  for (const [name, path] of [
    ["agenda", "/"], ["log", `/log?plan=${id}`], ["compare", `/compare?one=${id}&other=${other}`], ["machine", "/machine"],
  ]) {
    await ada.goto(place(path));
    await isAccessible(ada);
    await shoot(ada, name);
  }
  well("every page was looked at in three sizes");
}

try {
  await serve();
  await open();
  const ada = await person("ada");
  const id = await fromLinkToProof(ada);
  await agenda(ada);
  await keyboard(ada, id);
  await twoAtOnce(ada);
  await byTwo(ada);
  await restarted(ada);
  await amended(ada);
  await withoutScripts(id);
  await hostile(ada);
  await otherPages(ada, id);
  await isUnharmed(ada);
} finally {
  await close();
}
