# title: work on .gitignore and .gitattributes, and a contract that asks git about them
# touches: .gitignore, .gitattributes
project() { mkdir build; echo x > a.txt; }
contract() {
  git check-ignore -q build/out.o && ! git check-ignore -q a.txt || exit 1
  git check-attr text a.txt | grep -q 'text: set'
}
work() { echo '*.o' > .gitignore; echo '*.txt text' > .gitattributes; }
