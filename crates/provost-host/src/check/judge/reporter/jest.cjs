// A results processor of jest: reports the single tests of a run to the harness.
"use strict";

const RESULTS = { passed: "passed", failed: "failed" };

module.exports = (results) => {
  const { sendTests, nameOf } = globalThis[Symbol.for("provost")] || {};
  if (sendTests) {
    const tests = [];
    for (const file of results.testResults) {
      for (const test of file.testResults) {
        const name = nameOf(file.testFilePath, [...(test.ancestorTitles || []), test.title]);
        tests.push([RESULTS[test.status] || "skipped", name]);
      }
      // A file that could not be run has no tests.
      if (file.testExecError) tests.push(["failed", nameOf(file.testFilePath, ["(its tests could not be run)"])]);
    }
    sendTests("jest", tests);
  }
  return results;
};
