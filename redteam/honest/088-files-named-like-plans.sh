# title: documents named PLAN.md, progress.md and provost.toml in a folder of examples
# touches: examples/**
project() { mkdir examples; echo x > examples/keep; }
contract() {
  grep -q example examples/PLAN.md && grep -q example examples/progress.md && grep -q example examples/provost.toml
}
work() { for name in PLAN.md progress.md provost.toml; do echo "# an example" > examples/$name; done; }
