# title: a contract that asks git what was changed
# touches: src/**
project() { mkdir src; echo one > src/a.txt; echo one > src/b.txt; }
contract() {
  set -e
  test "$(git diff --name-only)" = src/a.txt
  git diff --quiet -- src/b.txt
}
work() { echo two > src/a.txt; }
