"""All that is fuzzed, by name."""

from fuzzing import Target
from of_files import clusters, journals, left, plans, properties, rolls, runs, stores
from of_frames import batches, protocol, running_tap, tap
from of_logs import logs, packs
from of_servers import brokers, http, logins, prometheus

TARGETS: dict[str, Target] = {
    "protocol": protocol,
    "batches": batches,
    "tap": tap,
    "running-tap": running_tap,
    "logins": logins,
    "http": http,
    "prometheus": prometheus,
    "brokers": brokers,
    "properties": properties,
    "stores": stores,
    "clusters": clusters,
    "plans": plans,
    "journals": journals,
    "rolls": rolls,
    "runs": runs,
    "left": left,
    "logs": logs,
    "packs": packs,
}
