# title: node's own test runner, started by npm test
# touches: calc.js
# needs: node --version && npm --version
project() {
  printf '{ "name": "calc", "version": "1.0.0", "scripts": { "test": "node --test" } }\n' > package.json
  echo 'exports.add = (a, b) => a - b' > calc.js
  mkdir test; printf 'const test = require("node:test"); const assert = require("node:assert")\nconst { add } = require("../calc.js")\ntest("add", () => assert.equal(add(1, 2), 3))\n' > test/calc.test.js
}
contract() {
  npm test --silent
}
work() { echo 'exports.add = (a, b) => a + b' > calc.js; }
