"""What is hidden of secrets, wherever they stand in what kipctl shows or writes down."""

import pytest

from kipctl.redaction import redacted, text_without_secrets, without_secrets, words_without_secrets
from kipctl.urls import without_logins

S = "Sup3rS3cret"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://prom:{S}@host:1/metrics", "https://***@host:1/metrics"),
        (f"https://{S}@host", "https://***@host"),
        (f"https://prom:{S}@{S}@host/a@b", "https://***@host/a@b"),
        (f"The metrics at http://a:{S}@[::1]:1/m did not come.", "The metrics at http://***@"
         "[::1]:1/m did not come."),
        (f'["http://a:{S}@b", "http://c/d", "e@f"]', '["http://***@b", "http://c/d", "e@f"]'),
        ("https://host/metrics?of=a@b", "https://host/metrics?of=a@b"),
        ("kafka@host, http://host", "kafka@host, http://host"),
    ],
)  # fmt: skip
def test_of_a_url_the_login_is_hidden(text: str, shown: str) -> None:
    assert without_logins(text) == text_without_secrets(text) == shown
    assert without_logins(shown) == shown


PIECES = [":", "a", "://", "://a", "token", "password.", "//:@ "]
PIECES += ['token"', "token\\", "token" + " " * 99]


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_of_a_broker_is_gone_through_once(piece: str) -> None:
    """In steps that grow with its length: the square of a million ends in no time-out."""
    text = "http://" + piece * (1_000_000 // len(piece))
    assert "Sup3r" not in text_without_secrets(text + f" password: {S}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Authorization: Bearer {S}", "Authorization: [hidden]"),
        (f"x-api-key: {S}", "x-api-key: [hidden]"),
        (f"a Bearer {S} of mine", "a Bearer [hidden] of mine"),
        (f"basic {S}", "basic [hidden]"),
        (f"password={S}", "password=[hidden]"),
        (f"https://host/m?of=a&access_token={S}&x=1", "https://host/m?of=a&access_token=[hidden]"),
        (f'sasl.jaas.config=x required username="a" password="{S}";', "sasl.jaas.config=[hidden]"),
        (f"--x=ssl.key.password={S}", "--x=ssl.key.password=[hidden]"),
        (f"http://a:b/{S}@host", "http://***@host"),
        (f'{{"SecretAccessKey": "{S}"}}', '{"SecretAccessKey": [hidden]'),
        (f'{{"SecretAccessKey":"{S}"}}', '{"SecretAccessKey":[hidden]'),
        (f'"{{\\"SessionToken\\" : \\"{S}\\"}}"', '"{\\"SessionToken\\" : [hidden]'),
        (f"{{'password': '{S}'}}", "{'password': [hidden]"),
        (f"aws_secret_access_key = {S}", "aws_secret_access_key = [hidden]"),
        (f"aws_secret_access_key\t=\n{S}", "aws_secret_access_key\t=\n[hidden]"),
        (f"'my.token' = '{S}'", "'my.token' = [hidden]"),
        (f"password : {S}", "password : [hidden]"),
        ("--token-file f, a token: none", "--token-file f, a token: [hidden]"),
        ('a "token" of it', 'a "token" of it'),
        ("Content-Type: text/plain", "Content-Type: text/plain"),
        ("systemctl restart kafka@{broker}", "systemctl restart kafka@{broker}"),
    ],
)  # fmt: skip
def test_so_is_what_is_named_like_a_secret(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown
    assert text_without_secrets(shown) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("reassign", "--metrics-url", f"https://prom:{S}@h"), ("https://***@h",)),
        (("roll", "--exec", f"curl -H 'Authorization: Bearer {S}' u"), ("curl [hidden]",)),
        (("roll", f"--exec=sshpass -p {S} ssh x"), ("--exec=sshpass [hidden]",)),
        (("roll", "--exec", f"TOKEN={S}"), ("TOKEN=[hidden]",)),
        (("roll", "--exec", "./restart.sh"), ("./restart.sh",)),
        (("perf", "--producer-property", f"sasl.password={S}"), ("sasl.password=[hidden]",)),
        (("curl", "-u", f"prom:{S}"), ("prom:[hidden]",)),
        (("curl", f"--user=prom:{S}"), ("--user=prom:[hidden]",)),
        (("x", "--password", S), ("[hidden]",)),
        (("x", "--token-file", "f"), ("[hidden]",)),
        (("sudo", "-u", "kafka"), ("kafka",)),
        (("x", "--acks", "all"), ("all",)),
    ],
)  # fmt: skip
def test_of_a_command_line_too(words: tuple[str, ...], shown: tuple[str, ...]) -> None:
    kept = words[: len(words) - len(shown)]
    assert words_without_secrets(words) == (*kept, *shown)
    assert words_without_secrets(words_without_secrets(words)) == (*kept, *shown)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "SASL.PASSWORD",
        "my.token",
    ],
)
def test_no_secret_is_written_down(name: str) -> None:
    shown = without_secrets({name: "hunter2", "acks": "all", "client.id": "perf"})
    assert shown == {name: "[hidden]", "acks": "all", "client.id": "perf"}


def test_no_secret_of_a_command_line_is_shown() -> None:
    words = (
        *("perf", "produce", "--topic", "orders", "--command-property", "acks=all"),
        'sasl.jaas.config=Module required password="hunter2" a=b;',
        "--command-property=ssl.key.password=hunter2",
        "--command-config=secrets.properties",
    )
    assert words_without_secrets(words) == (
        *words[:6],
        "sasl.jaas.config=[hidden]",
        "--command-property=ssl.key.password=[hidden]",
        words[-1],
    )


def test_what_other_hands_wrote_is_shown_without_secrets() -> None:
    written = {"a": [{"my.token": S, "tokens": 3}, f"http://a:{S}@h"], "b": None}
    shown = {"a": [{"my.token": "[hidden]", "tokens": 3}, "http://***@h"], "b": None}
    assert redacted(written) == redacted(shown) == shown
