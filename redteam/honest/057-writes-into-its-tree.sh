# title: a contract that writes into the tree
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
contract() {
  mkdir -p build && cp src/a.txt build/ && grep -qx two build/a.txt
}
work() { echo two > src/a.txt; }
