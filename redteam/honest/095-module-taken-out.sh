# title: a step that removes a module of the project, and a contract that requires `python3 -m` to fail
# touches: oldtool/**, keep.py
# way out: ask just that question (`! python3 -c "import oldtool"`), or name the failure that is expected (`stderr contains "No module named"`)
# says: so its failure shows nothing
# needs: python3 -c "import os"
project() { mkdir oldtool; echo 'print("old")' > oldtool/__main__.py; echo 'x = 1' > keep.py; }
contract() {
  ! python3 -m oldtool && test -f keep.py
}
work() { rm -r oldtool; }
