# title: a contract that requires a new file to be untracked
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
contract() {
  git status --porcelain | grep -q '^?? src/new.txt$'
}
work() { echo new > src/new.txt; }
