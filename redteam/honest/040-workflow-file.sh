# title: a workflow of the repository, which touches names exactly
# touches: .github/workflows/ci.yml
project() { mkdir -p .github/workflows; printf 'on: push\njobs: {}\n' > .github/workflows/ci.yml; }
contract() {
  grep -q 'timeout-minutes: 10' .github/workflows/ci.yml
}
work() { printf 'on: push\njobs:\n  test:\n    timeout-minutes: 10\n' > .github/workflows/ci.yml; }
