# title: the same with a contract that asks just that question
# touches: oldtool/**, keep.py
# needs: python3 -c "import os"
project() { mkdir oldtool; echo 'print("old")' > oldtool/__init__.py; echo 'x = 1' > keep.py; }
contract() {
  ! python3 -c 'import oldtool' && test -f keep.py
}
work() { rm -r oldtool; }
