#!/usr/bin/env node
// Starts the binary of the package for this platform.
"use strict";

const name = `provost-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/provost`);
} catch {
  const why =
    process.platform === "linux"
      ? `The package ${name} is not installed. Install again without --omit=optional (--no-optional).`
      : "provost runs on Linux. On macOS and Windows use the container image: docs/install.md has the command.";
  console.error(`error: no provost for ${process.platform} ${process.arch}\n${why}`);
  process.exit(70);
}

const words = process.argv.slice(2);
if (process.execve) {
  // The binary takes the place of node: signals, terminal and process id are its own. Needs node 22.15.
  process.execve(program, ["provost", ...words], process.env);
}
const child = require("node:child_process").spawn(program, words, { stdio: "inherit" });
// The terminal sends these to both processes; node waits for the answer of the binary.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => signal !== "SIGINT" && child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(70);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
