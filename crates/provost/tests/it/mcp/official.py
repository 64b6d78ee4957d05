"""The official client: initialize, list, and call every tool of `provost mcp` once."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CHECK = "test -s out.txt"
CALLS = [
    ("plan_create", {"objective": "Write it", "steps": [{"title": "Write out.txt", "check": CHECK, "publishes": ["notes"]}]}),
    ("plan_show", {}),
    ("plan_next", {}),
    ("step_update", {"step": 1, "status": "in_progress"}),
    ("step_update", {"step": 1, "status": "done", "evidence": "none yet"}),
    ("postcondition_verify", {}),
    ("topic_publish", {"topic": "notes", "text": "hello"}),
    ("topic_read", {"topic": "notes"}),
]


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=json.loads(sys.argv[2]))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = {tool.name for tool in (await session.list_tools()).tools}
        print("tools", *sorted(tools))
        for name, arguments in CALLS:
            answer = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
            print(name, "refused" if answer["isError"] else "ok", answer["content"][0]["text"].split("\n")[0])
        open("out.txt", "w").write("x")
        answer = (await session.call_tool("step_update", CALLS[4][1])).model_dump(by_alias=True)
        print("claimed", answer["isError"], answer["content"][0]["text"].replace("\n", " "))
        resources = (await session.list_resources()).resources
        print("resources", *sorted(str(resource.uri) for resource in resources))
        prompts = (await session.list_prompts()).prompts
        print("prompts", *sorted(prompt.name for prompt in prompts))


asyncio.run(main())
