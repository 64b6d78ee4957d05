# title: git in a precondition
# touches: src/**
project() { mkdir src tests; echo one > src/a.txt; echo t > tests/t.txt; }
precondition() {
  git diff --quiet -- tests
}
contract() {
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; }
