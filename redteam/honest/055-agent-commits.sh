# title: an agent that commits its work
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
contract() {
  grep -qx two src/a.txt
}
work() { echo two > src/a.txt; git -c user.name=a -c user.email=a@localhost commit --quiet --all --message done || true; }
