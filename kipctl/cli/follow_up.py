"""Commands that messages name, so that they go to the cluster that the message is about."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ON_A_CLUSTER = re.compile(
    r"\bkipctl (reassign|undo|changes [a-z-]+|elect [a-z]+|request-log [a-z]+|inspect [a-z-]+"
    r"|perf [a-z0-9]+|tap|wait|roll)"
    r"(?![\w-])(?! --help)(?![^,\n]* --(?:bootstrap-server|cluster) )"
)
"""Commands that connect to a cluster and do not name it (a command of the past, cited, may); a test
holds this beside all that there are."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """`options` are those that name a command's cluster, as they are typed."""

    options: str

    @classmethod
    def of(cls, servers: str | None, connecting: Mapping[str, Any]) -> "FollowUp":
        """`servers` is --bootstrap-server, `connecting` are the options beside it.

        What a variable says, or which lab runs, is as true for the next command.
        """
        words = ["--bootstrap-server", servers] if servers else []
        for name, option in (("cluster", "--cluster"), ("command_config", "--command-config")):
            if value := connecting.get(name):
                words += [option, str(value)]
        for mapped in connecting.get("map") or ():
            words += ["--map", mapped]
        return cls(shlex.join(words))

    def on_this_cluster(self, text: str) -> str:
        """The text, with the options behind each command that connects."""
        if not self.options or "kipctl " not in text:
            return text
        return _ON_A_CLUSTER.sub(lambda found: f"{found[0]} {self.options}", text)
