# title: two hard links to one file
# touches: out/**
project() { mkdir out; echo x > out/keep; }
contract() {
  cmp out/a out/b
  grep -qx hello out/b
}
work() { echo hello > out/a; ln out/a out/b; }
