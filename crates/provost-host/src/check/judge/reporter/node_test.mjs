// A reporter of `node --test`: reports the single tests of a run to the harness and prints what node's own reporter
// prints. PROVOST_NODE_SILENT: another reporter prints.
import { Readable } from "node:stream";
import { spec, tap } from "node:test/reporters";

async function* recorded(events) {
  const { sendTests, nameOf } = globalThis[Symbol.for("provost")] || {};
  const tests = [];
  const titles = [];
  for await (const event of events) {
    const { type, data } = event;
    if (type === "test:start") {
      titles.length = data.nesting;
      titles[data.nesting] = data.name;
    } else if (type === "test:pass" || type === "test:fail") {
      const isSuite = data.details && data.details.type === "suite";
      const isOpen = data.skip !== undefined || data.todo !== undefined;
      if (!isSuite) {
        // A file that could not be run has its own path as the name of a test.
        const isFile = type === "test:fail" && data.nesting === 0 && data.name === data.file;
        const own = isFile ? "(its tests could not be run)" : data.name;
        const name = nameOf(data.file, [...titles.slice(0, data.nesting), own]);
        const result = isOpen ? "skipped" : type === "test:pass" ? "passed" : "failed";
        tests.push([result, name]);
      }
    }
    yield event;
  }
  if (sendTests) sendTests("node --test", tests);
}

// Node 23 and later print `spec` by default, earlier versions `tap` where no person looks.
const isSpec = process.stdout.isTTY || Number(process.versions.node.split(".")[0]) >= 23;

export default async function* report(events) {
  const all = recorded(events);
  if (process.env.PROVOST_NODE_SILENT) {
    for await (const _ of all);
  } else if (isSpec) {
    yield* Readable.from(all).compose(new spec());
  } else {
    yield* tap(all);
  }
}
