# title: a contract that sets NODE_OPTIONS itself
# touches: lib.js
# needs: node --version
project() {
  mkdir test; echo 'exports.add = (a, b) => a - b;' > lib.js
  echo 'require("node:test")("add", () => require("node:assert").equal(require("../lib.js").add(2, 2), 4));' > test/lib.test.js
}
contract() {
  NODE_OPTIONS=--max-old-space-size=512 node --test test/lib.test.js
}
work() { echo 'exports.add = (a, b) => a + b;' > lib.js; }
