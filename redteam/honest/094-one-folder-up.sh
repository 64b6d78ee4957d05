# title: a contract that changes into a folder and reads files of the project through ../
# touches: app/**
project() { mkdir -p app lib; echo 2 > lib/n; echo 1 > app/n; }
contract() {
  cd app && test ! -e ../gone && cmp n ../lib/n && (cd ../lib && test -e ../app/n) && cd .. && test -d lib
}
work() { echo 2 > app/n; }
