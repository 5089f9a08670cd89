"""A token endpoint on loopback, and unsigned tokens for it to give."""

import base64
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl


def jwt(*, signature: str = "c2lnbmF0dXJl", **claims: Any) -> str:
    """A JSON Web Token; Kafka's validator for development takes those without a signature."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    return ".".join((*parts, signature))


class Answer(NamedTuple):
    status: int
    content: object

    @property
    def body(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        return json.dumps(self.content).encode()


GIVEN = Answer(200, {"access_token": "abc", "expires_in": 3600})


class Endpoint:
    """A token endpoint on loopback that answers what it is told to, the last for ever."""

    def __init__(self) -> None:
        self.answers = [GIVEN]
        self.give: Callable[[], Answer] | None = None
        """Makes the answers in place of these."""
        self.before: Callable[[], object] = lambda: None
        """Called before each answer."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Authorization and form of each request."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.headers["Authorization"], dict(parse_qsl(form))))
                endpoint.before()
                answers = endpoint.answers
                if endpoint.give:
                    answer = endpoint.give()
                else:
                    answer = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
