# title: ignored build output that a glob of touches names
# touches: src/**, dist/**
project() { printf 'dist/\n' > .gitignore; mkdir src; echo one > src/a.txt; }
contract() {
  cmp src/a.txt dist/a.txt
  grep -qx two dist/a.txt
}
work() { echo two > src/a.txt; mkdir dist; cp src/a.txt dist/; }
