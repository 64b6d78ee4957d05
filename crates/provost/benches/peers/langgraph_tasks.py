"""Runs tasks as steps of one graph with a SQLite checkpointer: langgraph_tasks.py COUNT FOLDER"""

import subprocess
import sys
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

count, folder = int(sys.argv[1]), sys.argv[2]


class State(TypedDict):
    done: int


def task(state):
    subprocess.run(["/bin/true"], check=True)
    return {"done": state["done"] + 1}


graph = StateGraph(State)
graph.add_node("task", task)
graph.add_edge(START, "task")
graph.add_conditional_edges("task", lambda state: "task" if state["done"] < count else END)
with SqliteSaver.from_conn_string(f"{folder}/tasks.sqlite") as saver:
    settings = {"configurable": {"thread_id": "1"}, "recursion_limit": count + 10}
    result = graph.compile(checkpointer=saver).invoke({"done": 0}, settings, durability="sync")
assert result["done"] == count, result
