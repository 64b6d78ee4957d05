# title: a virtual environment in the project, made by the person and ignored by git
# touches: ok.py
# verify: caches = [".venv"]
# needs: python3 -m venv --help
project() {
  printf '.venv/\n' > .gitignore; echo 'x = 1' > ok.py
  python3 -m venv --without-pip .venv
  echo 'y = 2' > "$(echo .venv/lib/python3*/site-packages)/helper_of_venv.py"
}
contract() {
  .venv/bin/python -c 'import helper_of_venv, ok; assert ok.x == helper_of_venv.y'
}
work() { echo 'x = 2' > ok.py; }
