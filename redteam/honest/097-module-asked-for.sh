# title: a step that removes a module of the project, and a contract that checks only that the import fails
# touches: oldtool/**, keep.py
# needs: python3 -c "import os"
project() { mkdir oldtool; echo 'print("old")' > oldtool/__init__.py; echo 'x = 1' > keep.py; }
contract() {
  ! python3 -c 'import oldtool' && test -f keep.py
}
work() { rm -r oldtool; }
