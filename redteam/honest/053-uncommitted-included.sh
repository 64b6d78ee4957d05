# title: uncommitted work of the person, included in the approval
# touches: src/**
# approve: --include-uncommitted
project() { mkdir src; echo one > src/a.txt; }
later() { echo mine > src/mine.txt; }
contract() {
  grep -qx mine src/mine.txt
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; }
