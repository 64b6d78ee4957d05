# title: a step whose contract already holds and must keep holding (guard)
# touches: src/**
# step: **guard:** yes
# kind: held_before
project() { mkdir src; echo one > src/a.txt; }
contract() {
  grep -qx one src/a.txt
}
work() { echo more > src/b.txt; }
