# title: uncommitted notes of the person inside of touches, not included in the approval
# touches: src/**
# way out: commit them, stash them, or approve with `--include-uncommitted`
# says: --include-uncommitted
project() { mkdir src; echo one > src/a.txt; }
later() { echo mine > src/notes.txt; }
contract() {
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; }
