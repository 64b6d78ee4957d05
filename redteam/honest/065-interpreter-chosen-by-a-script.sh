# title: a contract that first loads a version manager from HOME, like nvm
# touches: app.js
# needs: node --version
project() {
  mkdir -p ~/.versions/node/v1/bin test
  ln -s "$(readlink -f "$(command -v node)")" ~/.versions/node/v1/bin/node
  echo 'use() { PATH="$HOME/.versions/node/$1/bin:$PATH"; }' > ~/.versions/use.sh
  echo 'exports.answer = () => 41;' > app.js
  echo 'require("node:test")("answer", () => require("node:assert").equal(require("../app.js").answer(), 42));' > test/app.test.js
}
contract() {
  . "$HOME/.versions/use.sh"
  use v1
  node --test test/app.test.js
}
work() { echo 'exports.answer = () => 42;' > app.js; }
