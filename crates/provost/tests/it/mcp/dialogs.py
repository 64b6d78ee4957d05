"""The official client with a person at its dialogs: they answer as the arguments say."""

import asyncio
import json
import sys

import mcp_types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM, VARIABLES, CLIENT, ANSWERS = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
STEPS = [{"title": "Write out.txt", "check": "test -s out.txt"}]


async def person(context, params):
    asked = params.model_dump(by_alias=True)
    print("asked", sorted(asked["requestedSchema"]["properties"]), asked["message"].replace("\n", " "))
    action, content = ANSWERS.pop(0)
    return types.ElicitResult(action=action, content=content)


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["mcp"], env=VARIABLES)
    known = types.Implementation(name=CLIENT, version="1")
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write, elicitation_callback=person, client_info=known) as session:
            await session.initialize()
            for name, arguments in [
                ("plan_create", {"objective": "Write it", "steps": STEPS}),
                ("step_update", {"step": 1, "status": "blocked", "reason": "which text?"}),
                ("plan_next", {}),
            ]:
                answer = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
                print(name, "refused" if answer["isError"] else "ok", answer["content"][0]["text"].replace("\n", " "))


asyncio.run(main())
