# title: a symbolic link next to its target
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
contract() {
  test -L src/current
  grep -qx two src/current
}
work() { echo two > src/b.txt; ln -s b.txt src/current; }
