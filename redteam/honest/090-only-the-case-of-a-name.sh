# title: a file of which only the case of its name changes, and a link in whose place a file comes
# touches: docs/**
project() { mkdir docs; echo x > docs/README; ln -s README docs/latest; }
contract() {
  test ! -e docs/README && grep -qx x docs/readme && test ! -L docs/latest && grep -qx y docs/latest
}
work() { mv docs/README docs/readme; rm docs/latest; echo y > docs/latest; }
