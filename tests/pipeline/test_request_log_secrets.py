"""What request logs hold that suffices to log in is in nothing that an analysis tells or keeps."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from one_process import OneProcess
from request_log_lines import MARKER, log_lines, request_of, with_request

pytestmark = pytest.mark.spark

SECRETS = ("c2FsdE9mQWxpY2U=", "c2FsdGVkUGFzc3dvcmQ=", "aG1hY09mVGhlVG9rZW4=")
SALT, SALTED, HMAC = SECRETS
SCRAM = {
    "name": "alice",
    "mechanism": 2,
    "iterations": 8192,
    "salt": SALT,
    "saltedPassword": SALTED,
}
USERS = {"deletions": [], "upsertions": [SCRAM]}


def of_api(key: int, name: str, request: dict[str, Any], response: dict[str, Any]) -> str:
    """A line of this API, as Kafka writes it."""
    line = next(line for line in log_lines("kafka-4.3.1") if MARKER in line)
    whole = request_of(line)
    whole["requestHeader"] |= {"requestApiKey": key, "requestApiKeyName": name}
    return with_request(line, {**whole, "request": request, "response": response})


def scram(error: int) -> str:
    results = [{"user": "alice", "errorCode": error, "errorMessage": None}]
    return of_api(51, "ALTER_USER_SCRAM_CREDENTIALS", USERS, {"results": results})


def damaged() -> list[str]:
    """What is shown of these lines, which begin with the marker, would reach into a secret."""
    answer = json.dumps({"errorCode": 0, "hmac": HMAC})
    user = json.dumps({"salt": SALT, "saltedPassword": SALTED})
    inside = json.dumps(user)  # of a shipper's own JSON, which is damaged too
    return [f"{MARKER}{{{text}" for text in (answer, user, inside, user[:50], inside[:60])]


def told(folder: Path) -> str:
    """All that is in the files of the folder."""
    return "\n".join(
        str(pq.read_table(path).to_pydict()) if path.suffix == ".parquet" else path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".crc"
    )


def test_no_output_and_no_saved_table_has_a_password_or_a_token(
    kipctl_again: OneProcess, tmp_path: Path
) -> None:
    whole = [scram(0), scram(31), of_api(38, "CREATE_DELEGATION_TOKEN", {}, {"hmac": HMAC})]
    cut = [scram(0)[: scram(0).index(secret) + 10] for secret in (SALT, SALTED)]
    for name, lines in (("all", [*whole, *cut, *damaged()]), ("none", damaged())):
        log, out = tmp_path / f"{name}.log", tmp_path / name
        log.write_text("\n".join(lines) + "\n")
        for kept in (
            ("-o", "json", "--save", str(out / "tables")),
            ("-o", "wide", "--html", str(out / "page.html")),
        ):
            out.mkdir(exist_ok=True)
            said = kipctl_again("analyze", "request-log", str(log), *kept)
            assert said.status == (0 if name == "all" else 8), said.err
            everything = said.out + said.err + told(out)
            assert MARKER in everything  # broken lines are shown
            assert [secret for secret in SECRETS if secret[:6] in everything] == []
