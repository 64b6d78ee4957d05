"""Runs tasks of one Prefect flow with a server of its own: prefect_tasks.py COUNT FOLDER"""

import subprocess
import sys

from prefect import flow, task

count = int(sys.argv[1])


@task
def one(number):
    subprocess.run(["/bin/true"], check=True)
    return number


@flow
def tasks(count):
    return sum(1 for number in range(count) if one(number) == number)


done = tasks(count)
assert done == count, done
