# title: data in a folder next to the project, declared for checks
# touches: sum.txt
# verify: read = ["/BESIDE"]
project() { echo 0 > sum.txt; mkdir -p ../beside; printf '1\n2\n' > ../beside/numbers; sed -i "s|/BESIDE|$(cd ../beside && pwd)|" provost.toml; }
contract() {
  test "$(paste -sd+ ../beside/numbers | bc 2>/dev/null || awk '{s+=$1} END {print s}' ../beside/numbers)" = "$(cat sum.txt)"
}
work() { echo 3 > sum.txt; }
