# title: uncommitted work of the person outside of touches
# touches: src/**
project() { mkdir src; echo one > src/a.txt; echo n > notes.txt; }
later() { echo mine > notes.txt; echo new > scratch.txt; }
contract() {
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; }
