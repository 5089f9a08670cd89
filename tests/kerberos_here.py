"""Whether this machine has what tests of Kerberos need: a KDC, and the library of kipctl[kerberos].

Where it has not, they are not among its tests, and pytest's header says so.
"""

from importlib.util import find_spec

from kipctl.errors import UsageError
from kipctl.lab.kdc import require_kdc


def _missing() -> str:
    try:
        require_kdc()
    except UsageError as error:
        return error.what
    return "" if find_spec("gssapi") else "There is no module gssapi."


MISSING = _missing()
HEADER = f"Kerberos is not among the tests: {MISSING}" if MISSING else "Kerberos is tested"
