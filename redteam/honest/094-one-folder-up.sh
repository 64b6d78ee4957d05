# title: a contract that goes into a folder and looks from there at files of the project, by ../
# touches: app/**
project() { mkdir -p app lib; echo 2 > lib/n; echo 1 > app/n; }
contract() {
  cd app && test ! -e ../gone && cmp n ../lib/n && (cd ../lib && test -e ../app/n) && cd .. && test -d lib
}
work() { echo 2 > app/n; }
