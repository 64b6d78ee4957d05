# title: an agent that installs a package into the project's `.venv` while it works
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
work() { echo 'x = 1' > "$(echo .venv/lib/python3*/site-packages)/more.py"; .venv/bin/python -c 'import more'; echo done > out.txt; }
