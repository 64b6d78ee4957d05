# title: a contract that reads every file tracked by git
# touches: src/**
project() { mkdir src; printf 'a \n' > src/a.txt; printf 'b\n' > src/b.txt; }
contract() {
  git ls-files -z src | xargs -0 sh -c '! grep -l " $" "$@"' sh
}
work() { printf 'a\n' > src/a.txt; }
