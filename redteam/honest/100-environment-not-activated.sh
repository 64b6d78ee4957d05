# title: a `.venv` of the project that the person's shell has not activated
# touches: out.txt
# needs: python3 -c "import venv"
project() {
  echo .venv > .gitignore
  python3 -m venv --without-pip .venv
  echo 'wanted = "done\n"' > "$(echo .venv/lib/python3*/site-packages)/ours.py"
}
contract() {
  python3 -c 'import ours; assert open("out.txt").read() == ours.wanted'
}
work() { echo done > out.txt; }
