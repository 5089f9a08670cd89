"""`kipctl roll` of a lab, in this process."""

import io
import json
import os
from typing import Any

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.lab.cluster import Lab


def rolled(lab: Lab, *words: str) -> tuple[int, dict[str, Any], str]:
    """The status, the report and what was said."""
    out, err = io.StringIO(), io.StringIO()
    environment = Environment(
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    )
    status = run(["roll", *words, "-o", "json", "--yes"], environment)
    return status, json.loads(out.getvalue() or "{}"), err.getvalue()
