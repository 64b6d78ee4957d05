# title: a step that takes a module of the project out, and a contract that wants python not to find it
# touches: oldtool/**, keep.py
# needs: python3 -c "import os"
project() { mkdir oldtool; echo 'print("old")' > oldtool/__main__.py; echo 'x = 1' > keep.py; }
contract() {
  ! python3 -m oldtool && test -f keep.py
}
work() { rm -r oldtool; }
