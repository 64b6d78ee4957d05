// Reports the test runners that node starts in a check, and changes the tests of `node --test` and mocha where
// it is told to. Node loads this file first in every process of a check, because NODE_OPTIONS requires it.
// PROVOST_REPORT names the pipe that reports go to; PROVOST_CONTROL is `fail` or `pass` in a control run, in
// which every test does just that (`pass` for mocha only). PROVOST_TESTS is `all` if every test has to be run, also
// after a failed one.
"use strict";

const fs = require("fs");
const path = require("path");

const pipe = process.env.PROVOST_REPORT;

const number = `${process.pid}.${Date.now()}`;

function lineOf(fields) {
  const line = fields.map((field) => String(field).replace(/[\n\x1f]/g, " ")).join("\x1f");
  return Buffer.concat([Buffer.from(line).subarray(0, 3999), Buffer.from("\n")]);
}

function send(...fields) {
  write([lineOf(fields)]);
}

// Waits while the pipe is full.
function writeAll(to, bytes) {
  for (let tries = 0; tries < 10000; tries += 1) {
    try {
      return fs.writeSync(to, bytes);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

function write(lines) {
  try {
    const to = fs.openSync(pipe, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
    try {
      // A write of at most 4096 bytes is not mixed with those of others.
      let chunk = [];
      let size = 0;
      for (const line of lines) {
        if (size + line.length > 4096) {
          writeAll(to, Buffer.concat(chunk));
          chunk = [];
          size = 0;
        }
        chunk.push(line);
        size += line.length;
      }
      writeAll(to, Buffer.concat(chunk));
    } finally {
      fs.closeSync(to);
    }
  } catch {
    // There is no reader: then nothing is reported.
  }
}

// Reports single tests: pairs of a result (passed, failed, skipped) and a name.
function sendTests(runner, tests, of = number) {
  const lines = tests.map(([result, name]) => lineOf(["test", runner, of, result, name]));
  write([...lines, lineOf(["list", runner, of, tests.length])]);
}

// The name of a test, by its file and its titles.
function nameOf(file, titles) {
  const place = file ? path.relative(process.cwd(), file) : "";
  return [place, ...titles].filter((part) => part !== "").join(" > ");
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
  const number = `${process.pid}.${Date.now()}.${Math.random()}`;
  const unmoved = [];
  const tests = [];
  const titles = (test) => (test.titlePath ? test.titlePath() : [test.fullTitle()]);
  const note = (result, test) => tests.push([result, nameOf(test.file, titles(test))]);
  let passed = 0;
  let failed = 0;
  process.env.PROVOST_INSIDE = number;
  send("start", "mocha-run", number, process.cwd());
  run.on("pass", (test) => {
    passed += 1;
    note("passed", test);
    if (process.env.PROVOST_CONTROL === "fail") unmoved.push(test.fullTitle());
  });
  run.on("fail", (test) => {
    failed += 1;
    note("failed", test);
  });
  run.on("pending", (test) => note("skipped", test));
  run.on("end", () => {
    delete process.env.PROVOST_INSIDE;
    sendTests("mocha-run", tests, number);
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
    if (process.env.PROVOST_TESTS === "all" && this.suite) this.suite.bail(false);
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

// Whether a file of the project's configuration has this word. Then what it says stays as it is.
function isConfigured(names, word) {
  return names.some((name) => {
    try {
      return fs.readFileSync(name, "utf8").includes(word);
    } catch {
      return false;
    }
  });
}

function addWords(...words) {
  const end = process.argv.indexOf("--", 2);
  process.argv.splice(end < 0 ? process.argv.length : end, 0, ...words);
}

const EXTENSIONS = ["js", "cjs", "mjs", "ts", "cts", "mts", "json"];

// Adds a reporter of single tests to jest or vitest, beside those that the project has.
function listTests(runner) {
  const given = process.argv.slice(2);
  const has = (option) => given.some((word) => word === option || word.startsWith(`${option}=`));
  const configs = (name) => EXTENSIONS.map((extension) => `${name}.config.${extension}`);
  if (runner === "jest") {
    const option = "testResultsProcessor";
    if (has(`--${option}`) || isConfigured([...configs("jest"), "package.json"], option)) return;
    addWords(`--${option}=${path.join(__dirname, "jest.cjs")}`);
  } else if (runner === "vitest") {
    const own = path.join(__dirname, "vitest.mjs");
    if (has("--reporter")) return addWords(`--reporter=${own}`);
    if (isConfigured([...configs("vitest"), ...configs("vite")], "reporters")) return;
    addWords("--reporter=default", `--reporter=${own}`);
  }
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
  // For the reporters that the runners load themselves.
  globalThis[Symbol.for("provost")] = { sendTests, nameOf };
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
    listTests(runner);
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
