"""The official client over streamable HTTP: two sessions with one token, each with a plan of its own."""

import asyncio
import sys

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

URL, TOKEN = sys.argv[1], sys.argv[2]


async def call(session, name, arguments):
    answer = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
    text = answer["content"][0]["text"].split("\n")[0]
    print(name, "refused" if answer["isError"] else "ok", text)


async def main():
    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = lambda: httpx2.AsyncClient(headers=headers, timeout=60)
    async with client() as first, client() as second:
        async with streamable_http_client(URL, http_client=first) as one, streamable_http_client(URL, http_client=second) as two:
            async with ClientSession(one[0], one[1]) as a, ClientSession(two[0], two[1]) as b:
                await a.initialize()
                await b.initialize()
                print("tools", len((await a.list_tools()).tools))
                await call(a, "plan_create", {"objective": "Write it", "steps": [{"title": "Write", "check": "test -s out.txt"}]})
                await call(a, "plan_show", {})
                await call(b, "plan_show", {})
                await call(a, "step_update", {"step": 1, "status": "done", "evidence": "none"})
                open("out.txt", "w").write("x")
                await call(a, "step_update", {"step": 1, "status": "done", "evidence": "out.txt"})


asyncio.run(main())
