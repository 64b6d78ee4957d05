# title: an agent that also leaves build output, a branch, a tag and a stash behind
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
contract() {
  grep -qx two src/a.txt
}
work() {
  mkdir -p build; echo x > build/out.o; echo log > run.log
  git tag mine; git branch mine-too; git config alias.st status
  echo half > src/a.txt; git -c user.name=a -c user.email=a@localhost stash -q || true
  echo two > src/a.txt
}
