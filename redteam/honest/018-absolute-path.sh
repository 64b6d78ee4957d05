# title: a contract with an absolute path into the workspace
# touches: src/**
project() {
  mkdir src; echo one > src/a.txt
  sed -i "s|WORKSPACE|$PWD|" PLAN.md
}
contract() {
  grep -qx two WORKSPACE/src/a.txt
}
work() { echo two > src/a.txt; }
