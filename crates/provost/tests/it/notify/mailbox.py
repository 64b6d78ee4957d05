"""A real SMTP server that prints its port, and then each mail as a line of JSON.

Arguments: the folder of aiosmtpd; then, for TLS and a login, the files of the certificate and its key.
"""
import asyncio
import json
import ssl
import sys
from email import message_from_bytes, policy

sys.path.insert(0, sys.argv[1])
from aiosmtpd.smtp import SMTP, AuthResult


class Mailbox:
    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.content, policy=policy.default)
        told = {
            "from": envelope.mail_from, "to": envelope.rcpt_tos, "subject": mail["Subject"],
            "id": mail["Message-ID"], "auto": mail["Auto-Submitted"], "kind": mail.get_content_type(),
            "text": mail.get_content(), "login": bool(session.authenticated),
        }
        print(json.dumps(told), flush=True)
        return "250 taken"


def login(server, session, envelope, mechanism, sent):
    return AuthResult(success=(sent.login, sent.password) == (b"provost", b"mail-password"))


async def serve():
    context, options = None, {}
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        # The whole connection is TLS, which aiosmtpd does not count as such.
        options = {"authenticator": login, "auth_required": True, "auth_require_tls": False}
    loop = asyncio.get_running_loop()
    make = lambda: SMTP(Mailbox(), hostname="localhost", loop=loop, **options)
    server = await loop.create_server(make, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(serve())
