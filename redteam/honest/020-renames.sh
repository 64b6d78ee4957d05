# title: a step that renames a folder
# touches: old/**, new/**
project() { mkdir -p old/sub; echo a > old/a; echo b > old/sub/b; }
contract() {
  test ! -e old
  cat new/a new/sub/b | tr -d '\n' | grep -qx ab
}
work() { mv old new; }
