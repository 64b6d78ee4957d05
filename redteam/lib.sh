# What every attack may use. It is put before the script, with the places as REDTEAM_* variables.

# The harness's process, found by walking up from here; nothing where it cannot be seen.
harness() {
  local pid=$PPID
  while [ "$pid" -gt 1 ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != provost ]; do
    pid=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat" 2>/dev/null || echo 0)
    pid=${pid:-0}
  done
  [ "$pid" -gt 1 ] && echo "$pid"
}

# What everything left running is called, so that it can be found from outside.
NAME="redteam-daemon:$REDTEAM_WORK"

# A process of another session that nobody here is the parent of. It must end by itself within seconds.
daemon() { (setsid bash -c "(setsid bash -c '$1; true' '$NAME' &)" </dev/null >/dev/null 2>&1 &); }

# The project's own command, as a person would type it.
provost() { PROVOST_STATE=$REDTEAM_STATE "$REDTEAM_PROVOST" "$@"; }

# Makes the contract one that anything meets.
weaken() { sed -i '/^```shell$/,/^```$/{/^```/!d}; s/^```shell$/```shell\ntrue/' "$REDTEAM_WORK/PLAN.md"; }

# Python with the log in hand: `log` is the database without its guards, `events()` the rows, and
# `append` and `reseal` write chains that verify.
forge() {
  REDTEAM_STATE=$REDTEAM_STATE REDTEAM_OUT=$REDTEAM_OUT python3 -c "$FORGE
$1"
}
FORGE='
import datetime, hashlib, json, os, sqlite3, time
state = os.environ["REDTEAM_STATE"]
log = sqlite3.connect(state + "/log.db", isolation_level=None)
for (name,) in log.execute("SELECT name FROM sqlite_schema WHERE type = \"trigger\"").fetchall():
    log.execute("DROP TRIGGER " + name)
plan, plan_name = log.execute("SELECT id, name FROM plan").fetchone()
COLUMNS = ["seq", "at_ms", "name", "step", "task_name", "details", "prev", "hash"]
def events():
    rows = log.execute("SELECT " + ", ".join(COLUMNS) + " FROM event WHERE plan = ? ORDER BY seq", (plan,))
    return [dict(zip(COLUMNS, row)) for row in rows.fetchall()]
def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
def seal(e):
    at = datetime.datetime.fromtimestamp(e["at_ms"] / 1000, datetime.timezone.utc)
    stamp = at.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (e["at_ms"] % 1000)
    task = "null" if e["step"] is None else "\"task_%d\"" % e["step"]
    text = "{\"details\":%s,\"event\":%s,\"plan\":%s,\"prev\":\"%s\",\"seq\":%d,\"task_id\":%s,\"task_name\":%s,\"timestamp\":\"%s\"}" % (
        e["details"], compact(e["name"]), compact(plan_name), e["prev"].hex(), e["seq"], task,
        compact(e["task_name"]), stamp)
    e["hash"] = hashlib.sha256(text.encode()).digest()
    return e
def insert(e):
    marks = ", ".join("?" * len(COLUMNS))
    log.execute("INSERT INTO event (plan, %s) VALUES (?, %s)" % (", ".join(COLUMNS), marks),
                (plan, *[e[c] for c in COLUMNS]))
def append(name, details, step=None):
    last = events()[-1]
    title = next((e["task_name"] for e in events() if e["task_name"]), None)
    insert(seal({"seq": last["seq"] + 1, "at_ms": int(time.time() * 1000), "name": name, "step": step,
                 "task_name": title if step else None, "details": compact(details), "prev": last["hash"]}))
def reseal(kept):
    log.execute("DELETE FROM event WHERE plan = ?", (plan,))
    prev = bytes(32)
    for seq, e in enumerate(kept, 1):
        e["seq"], e["prev"] = seq, prev
        insert(seal(e))
        prev = e["hash"]
HELD = {"outcome": {"kind": "held"}, "isolation": "in-place", "duration_ms": 12}
'

# A program that waits until the contract of the fixture `wait` is being run, and does the work then.
watch() {
  cat > .redteam/watch.py <<PY
import os
import time

WORK = "$REDTEAM_WORK"


def checked():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            there = os.readlink(f"/proc/{pid}/cwd") == WORK
            if there and open(f"/proc/{pid}/cmdline").read() == "sleep\\0" + "0.8\\0":
                return True
        except OSError:
            pass
    return False


def watch(seconds=4):
    end = time.time() + seconds
    while time.time() < end:
        if checked():
            open(WORK + "/out.txt", "w").write("total 42\n")
            time.sleep(1)
            return
        time.sleep(0.01)


if __name__ == "__main__":
    watch()
PY
}
