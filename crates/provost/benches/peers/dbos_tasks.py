"""Runs tasks as steps of one DBOS workflow, recorded in SQLite: dbos_tasks.py COUNT FOLDER"""

import logging
import subprocess
import sys

from dbos import DBOS

count, folder = int(sys.argv[1]), sys.argv[2]
logging.disable(logging.WARNING)
DBOS(config={
    "name": "tasks",
    "system_database_url": f"sqlite:///{folder}/tasks.sqlite",
    "run_admin_server": False,
    "log_level": "ERROR",
})


@DBOS.step()
def task(number):
    subprocess.run(["/bin/true"], check=True)
    return number


@DBOS.workflow()
def tasks(count):
    return sum(1 for number in range(count) if task(number) == number)


DBOS.launch()
done = tasks(count)
DBOS.destroy()
assert done == count, done
