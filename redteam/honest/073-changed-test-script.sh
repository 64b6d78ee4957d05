# title: the script `test` of package.json changes with the work, and touches names it
# touches: lib.js, package.json
# needs: npm --version && node --version
project() {
  mkdir test
  echo 'exports.add = (a, b) => a - b;' > lib.js
  echo '{"name": "lib", "version": "1.0.0", "scripts": {"test": "node --test test/lib.test.js"}}' > package.json
  echo 'require("node:test")("add", () => require("node:assert").equal(require("../lib.js").add(2, 2), 4));' > test/lib.test.js
}
contract() {
  npm test --silent
}
work() {
  echo 'exports.add = (a, b) => a + b;' > lib.js
  sed -i 's|node --test test/lib.test.js|node --test --test-reporter=spec test/lib.test.js|' package.json
}
