// Reports the test runners that node starts in a check, and makes the tests of `node --test` fail where it
// is told to. Node loads this file first in every process of a check, because NODE_OPTIONS requires it.
// PROVOST_REPORT names the pipe that reports go to; PROVOST_CONTROL is `fail` in a control run.
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
  if (/\/node_modules\/mocha\/bin\/_?mocha(\.c?js)?$/.test(place)) return "mocha";
  return undefined;
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
