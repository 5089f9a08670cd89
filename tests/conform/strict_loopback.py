"""The scripted cluster for kipctl's own clients, which ask for nothing that no broker knows."""

from kipctl.conform.cluster import Loopback
from kipctl.protocol.api import ApiKey


class StrictLoopback(Loopback):
    """At its end every frame that came was a request, and every request one that it serves."""

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if not any(exception):
            assert not self.malformed, self.malformed
            asked = (e for e in self.cluster.exchanges if e.api != ApiKey.API_VERSIONS)
            assert not [e for e in asked if e.unknown or e.left_over]
