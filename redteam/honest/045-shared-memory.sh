# title: a test that uses shared memory and many processes
# touches: n.txt
# needs: python3 -c "import multiprocessing"
project() { echo 1 > n.txt; }
contract() {
  python3 - <<'PY'
  from concurrent.futures import ThreadPoolExecutor
  from multiprocessing import shared_memory
  m = shared_memory.SharedMemory(create=True, size=4096); m.buf[0] = 4; v = m.buf[0]; m.close(); m.unlink()
  with ThreadPoolExecutor(4) as pool: list(pool.map(str, range(100)))
  assert int(open("n.txt").read()) == v
  PY
}
work() { echo 4 > n.txt; }
