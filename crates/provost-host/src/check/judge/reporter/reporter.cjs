// Reports the test runners that node starts in a check, and changes the tests of `node --test` and mocha where
// it is told to. Node loads this file first in every process of a check, because NODE_OPTIONS requires it.
// PROVOST_REPORT names the pipe that reports go to; PROVOST_CONTROL is `fail` or `pass` in a control run, in
// which every test does just that (`pass` for mocha only).
"use strict";

const fs = require("fs");
const path = require("path");

const pipe = process.env.PROVOST_REPORT;

function send(...fields) {
  const line = fields.map((field) => String(field).replace(/[\n\x1f]/g, " ")).join("\x1f");
  try {
    // A write of at most 4096 bytes is not mixed with those of others.
    const to = fs.openSync(pipe, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
    try {
      fs.writeSync(to, Buffer.concat([Buffer.from(line).subarray(0, 3999), Buffer.from("\n")]));
    } finally {
      fs.closeSync(to);
    }
  } catch {
    // Nobody listens: then nothing is reported.
  }
}

// A runner by the program that node runs, as it lies in its package.
function runnerOf(program) {
  const place = program.split(path.sep).join("/");
  if (/\/node_modules\/(jest|jest-cli)\/bin\/jest(\.js)?$/.test(place)) return "jest";
  if (/\/node_modules\/vitest\/(vitest|dist\/cli)\.m?js$/.test(place)) return "vitest";
  if (/\/node_modules\/mocha\/(bin\/_?mocha|lib\/cli\/cli)(\.c?js)?$/.test(place)) return "mocha";
  const other = /\/node_modules\/(ava|jasmine|tap|tape|uvu|@hapi\/lab)\/.*?(bin|entrypoints|dist)[/.]/.exec(place);
  return other ? other[1] : undefined;
}

// Replaces what a test of mocha does.
function planted() {
  if (process.env.PROVOST_CONTROL === "fail") throw new Error("planted: the harness made this test fail");
}

function changeTests(suite) {
  suite.bail(false);
  suite.eachTest((test) => {
    if (test.fn) Object.assign(test, { fn: planted, async: 0, sync: true });
  });
}

// Counts the tests of a run of mocha. A test may run mocha, too: only the outermost run is the contract's.
function countTests(run) {
  if (process.env.PROVOST_INSIDE) return;
  const number = `${process.pid}.${Date.now()}`;
  const unmoved = [];
  let passed = 0;
  let failed = 0;
  process.env.PROVOST_INSIDE = number;
  send("start", "mocha-run", number, process.cwd());
  run.on("pass", (test) => {
    passed += 1;
    if (process.env.PROVOST_CONTROL === "fail") unmoved.push(test.fullTitle());
  });
  run.on("fail", () => {
    failed += 1;
  });
  run.on("end", () => {
    delete process.env.PROVOST_INSIDE;
    send("end", "mocha-run", number, passed, failed, 0);
    for (const name of unmoved.slice(0, 5)) send("unmoved", "mocha-run", number, name.slice(0, 300));
  });
}

// Watches a class of mocha that runs tests.
function watchRuns(Runner, isWorker) {
  const run = Runner.prototype.run;
  Runner.prototype.run = function (...args) {
    if (!isWorker) countTests(this);
    if (process.env.PROVOST_CONTROL && this.suite) changeTests(this.suite);
    return run.apply(this, args);
  };
}

// Watches both such classes of mocha when it loads them: one runs tests here, the other gives them to workers.
function watchMocha(isWorker) {
  const Module = require("module");
  const load = Module._load;
  const known = new Set();
  Module._load = function (request, parent, ...rest) {
    const loaded = load.call(this, request, parent, ...rest);
    const from = ((parent && parent.filename) || "").split(path.sep).join("/");
    if (/(^|\/)(parallel-)?(buffered-)?runner(\.[cm]?js)?$/.test(request) && from.includes("/mocha/lib/")) {
      const Runner = typeof loaded === "function" ? loaded : loaded.Runner;
      if (Runner && !known.has(Runner) && Object.hasOwn(Runner.prototype, "run")) {
        known.add(Runner);
        watchRuns(Runner, isWorker);
      }
    }
    return loaded;
  };
}

function isTest(name) {
  return /(^tests?|[-._](test|spec))\.[cm]?[jt]sx?$|^test-/.test(name);
}

function realPath(program) {
  try {
    return fs.realpathSync(program);
  } catch {
    return program;
  }
}

if (pipe && require("worker_threads").isMainThread) {
  const number = `${process.pid}.${Date.now()}`;
  const isChild = Boolean(process.env.NODE_TEST_CONTEXT);
  const isRunner = process.execArgv.includes("--test") && !isChild;
  const runsItself = process.execArgv.some((option) => /test-isolation=none$/.test(option));
  const program = process.argv[1];
  const runner = program && !isChild && !isRunner && runnerOf(realPath(program));
  const isWorker = program && /\/node_modules\/mocha\/lib\/nodejs\/worker\.c?js$/.test(realPath(program));
  if (runner === "mocha" || isWorker) watchMocha(isWorker);
  const isFile = program && !runner && !isRunner && isTest(path.basename(program));
  if (isRunner) {
    send("start", "node --test", number, process.cwd(), ...process.argv.slice(1));
  } else if (runner) {
    send("start", runner, number, process.cwd(), ...process.argv.slice(2));
  } else if (isFile && !isChild) {
    send("start", "node", number, process.cwd(), ...process.argv.slice(1));
  }
  if (process.env.PROVOST_CONTROL === "fail") {
    if (isChild || (isRunner && runsItself)) {
      require("node:test").beforeEach(() => {
        throw new Error("planted: the harness made this test fail");
      });
    }
    // A file without tests is one test by itself. Code that ends the process early never comes here.
    if (isChild || isFile) {
      process.once("beforeExit", () => {
        process.exitCode = 1;
      });
    }
  }
}
