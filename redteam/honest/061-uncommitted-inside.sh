# title: uncommitted notes of the person inside of touches, not included, and work of the agent beside them
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
later() { echo mine > src/notes.txt; }
contract() {
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; }
