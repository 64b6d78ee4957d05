// A reporter of vitest: reports the single tests of a run to the harness.
const RESULTS = { passed: "passed", pass: "passed", failed: "failed", fail: "failed" };

export default class {
  isSent = false;

  send(tests) {
    const { sendTests } = globalThis[Symbol.for("provost")] || {};
    if (!sendTests || this.isSent) return;
    this.isSent = true;
    sendTests("vitest", tests(globalThis[Symbol.for("provost")].nameOf));
  }

  // Since version 3.
  onTestRunEnd(modules) {
    this.send((nameOf) => {
      const tests = [];
      for (const file of modules) {
        for (const test of file.children.allTests()) {
          const name = nameOf(file.moduleId, test.fullName.split(" > "));
          tests.push([RESULTS[test.result().state] || "skipped", name]);
        }
        if (file.state() === "failed" && file.errors().length > 0) {
          tests.push(["failed", nameOf(file.moduleId, ["(its tests could not be run)"])]);
        }
      }
      return tests;
    });
  }

  // Before version 3.
  onFinished(files = []) {
    this.send((nameOf) => {
      const tests = [];
      const walk = (file, titles, task) => {
        const path = [...titles, task.name];
        if (task.tasks) return task.tasks.forEach((inner) => walk(file, path, inner));
        tests.push([RESULTS[task.result && task.result.state] || "skipped", nameOf(file.filepath, path)]);
      };
      for (const file of files) {
        (file.tasks || []).forEach((task) => walk(file, [], task));
        if (file.result && file.result.errors && file.result.errors.length > 0) {
          tests.push(["failed", nameOf(file.filepath, ["(its tests could not be run)"])]);
        }
      }
      return tests;
    });
  }
}
