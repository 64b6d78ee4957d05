# title: test data that is a link to another folder of the project
# touches: count.sh
project() { mkdir -p shared/data tests; printf '1\n2\n3\n' > shared/data/lines; ln -s ../shared/data tests/data; echo 'echo 0' > count.sh; }
contract() {
  test "$(sh count.sh tests/data/lines)" = 3
}
work() { echo 'wc -l < "$1"' > count.sh; }
