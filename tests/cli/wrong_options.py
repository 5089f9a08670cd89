"""For each command a command line that is right, and for each option values that are wrong."""

EXPERIMENTS = ("redirect", "roll", "closest-replica", "batch", "metadata")
INSPECTED = ("brokers", "replica-selection", "metadata", "leaders", "hints")
CHANGES = ("list", "show", "undo", "resume", "pause", "cancel", "clear-throttles")
WITH_A_LAB = tuple(
    f"lab {verb}" for verb in ("stop", "start", "restart", "pause", "resume", "logs")
)

VALID = {
    **dict.fromkeys(("tap", "demo", "lab up", "lab status", "lab down", *WITH_A_LAB), ""),
    **{f"inspect {what}": "" for what in INSPECTED},
    **{f"experiment {name}": "" for name in EXPERIMENTS},
    **{f"spark {verb}": "" for verb in ("start", "status", "stop")},
    **dict.fromkeys(("request-log off", "request-log status", "runs list"), ""),
    **dict.fromkeys(("clusters list", "clusters test"), ""),
    "experiment run": "{experiment}",
    "reassign": "--rotate --all-topics --yes",
    **dict.fromkeys(("undo", *(f"changes {verb}" for verb in CHANGES)), ""),
    "elect preferred": "--all",
    "elect unclean": "--all --yes",
    "wait": "--until in-sync",
    "roll": "--exec 'restart {{broker}}' --yes",
    "throttle set": "50MB/s --yes",
    "throttle adapt": "--yes",
    **dict.fromkeys(("throttle show", "throttle clear"), ""),
    "clusters show": "never",
    "clusters remove": "never --yes",
    "clusters add": "new --bootstrap-server 127.0.0.1:1",
    "perf consume": "--topic t --num-records 10",
    "perf e2e": "--num-records 10",
    "perf metadata": "--yes",
    "perf produce": "--num-records 10 --throughput 5 --record-size 10",
    "request-log on": "--all-brokers --until-off --yes",
    "analyze runs": "{run}",
    "analyze request-log": "{log}",
    "request-log pack": "{log} --to {new}",
    "report": "{run} --html={new}",
    "runs show": "{run}",
    "runs repair": "{run}",
    "runs compare": "{run} {other}",
    "runs export": "{run} {new}",
    "runs remove": "{run} --yes",
    "explain": "few-moves",
    "conform run": "--preset kipctl --rules 951-1 --repeats 1",
    "conform broker": "",
    "conform serve": "951-1",
    "conform list": "",
    "conform explain": "951-1",
}
"""`{run}` and `{other}` are runs, `{log}` a request log; nothing is at `{new}` and `{none}`."""

QUIET = {
    *("clusters add", "clusters list", "lab status", "explain", "runs list"),
    *("conform list", "conform explain"),
    *("runs show", "runs repair", "spark status", "spark stop"),
}
"""These only look at what is on this machine."""

NEEDS_LAB = {"clusters show", "clusters remove", "lab down", *WITH_A_LAB}
"""Without a lab of that name their right command line is wrong usage too."""

_PLANS = ("--plan", "--drain", "--leader", "--balance", "--add", "--replace")
ALONE = {
    **{("reassign", option): "--yes" for option in (*_PLANS, "--replication-factor")},
    **{("reassign", o): "--drain 1 --yes" for o in ("--throttle", "--concurrent-moves")},
    ("reassign", "--spare"): "--leaders-off 1 --yes",
    ("reassign", "--verify"): "",
    ("roll", "--exec"): "--yes",
    ("roll", "--was-restarted"): "--resume --yes",
    **{("elect preferred", o): "" for o in ("--json-file", "--topic", "--broker", "--partition")},
    **{("elect unclean", o): "--yes" for o in ("--json-file", "--topic", "--partition")},
    ("tap", "--ca"): "--tls-to-brokers",
    ("tap", "--until-met"): "--rotate t --yes",
    ("inspect replica-selection", "--for"): "--watch",
    ("inspect replica-selection", "--price-per-gb"): "--rate-over 5s",
    ("request-log on", "--broker"): "--until-off --yes",
    ("request-log on", "--for"): "--all-brokers --yes",
    ("experiment redirect", "--curve"): "--predict",
    ("perf e2e", "--keep"): "--forever",
    ("perf produce", "--payload-file"): "--num-records 10 --throughput 5",
    ("perf produce", "--payload-delimiter"): (
        "--num-records 10 --throughput 5 --payload-file {run}/run.json"
    ),
}
"""The rest of the command line, for options that do not go with what stands in VALID."""


def each(options: str, *values: str) -> dict[str, tuple[str, ...]]:
    """The same wrong values of several options."""
    return dict.fromkeys(options.split(), values)


_COUNT = ("0", "-1", "x", "1.5")
_MOVES = "--concurrent-moves --moves --rotations"

WRONG: dict[str, tuple[str, ...]] = {
    **each(f"{_MOVES} --limit --num-records --partitions --record-size --runs --workers", *_COUNT),
    **each("--broker --count --fetch-size --lines --offset --racks --restarts", "-1", "x"),
    **each("--replication-factor", "-1", "x"),
    **each("--ca --client-ca --certificate --key", "{none}", "{run}", "{broken}"),
    **each("--json-file --kafka-home", "{none}", "{run}", "{broken}"),
    **each("--plan --verify --journal", "{none}", "{run}", "{broken}"),
    **each("--command-config --consumer.config --producer.config", "{none}", "{run}"),
    "--command-config": ("{none}", "{run}", ""),
    **each(
        *("--command-property --producer-props", "acks", "=1", "no.such.setting=1"),
        "request.timeout.ms=soon",
    ),
    **each("--every --exec-timeout", "0", "-1", "x", "nan", "inf", "5y"),
    **each("--for --guard-patience --rate-over", "soon", "0", "-5s", "5y"),
    **each("--idle-timeout --start-timeout", "soon", "0s", "-5s", "5y"),
    **each("--between --look-again", "soon", "-5s", "5y", ""),
    **each("--metadata-delay --stale-metadata", "1x", "soon", "-1ms"),
    **each("--since --before --until", "soon", "2026-13-01T00:00:00", "5x"),
    **each("--add --drain", "x", "-1", "1,,2", ""),
    **each("--payload-delimiter --scratch", ""),
    **each("--spare", "-1", "x", "0.5", ""),
    **each("--name --phase", "never", ""),
    **each("--save --svg", "{run}", "{broken}", "{broken}/below/it"),
    **each("--quiet-metadata --start-timeout", "soon", "0s", "-5s", "5y"),
    **each("--repeats", *_COUNT, "100"),
    **each("--expect", "{none}", "{run}", "{broken}"),
    "--as": ("broker", ""),
    "--junit": ("{run}", "{none}/report.xml", ""),
    "--preset": ("never", ""),
    "--rules": ("951-99", "951,", ""),
    "--acks": ("2", "", "all,2", "none"),
    "--balance": ("replicas", ""),
    "--leader": ("t-0", "t=1", "0=1", "t-0=x", "-0=1"),
    "--replace": ("1", "1=", "x=2", "1=1"),
    **each(
        *("--throttle --begin-at --at-least --at-most", "50", "50MB", "0MB/s", "-1MB/s", "fast"),
        "",
    ),
    "--advertise": ("a:x", "a:1", ":1"),
    "--arms": ("java", "", "probe-kip951,,", "java-4", "=x"),
    "--bootstrap-server": ("localhost", "127.0.0.1:x", "127.0.0.1:0", "127.0.0.1:65536", ":1"),
    "--batch": (*_COUNT, "10001"),
    "--batches": ("", "0", "-1", "few", "1,", "1.5"),
    "--brokers": (*_COUNT, "101"),
    "--by": ("nobody", "run,nobody", ""),
    "--cap": ("Produce", "Nothing=1", "Produce=-1", "Produce=x", ""),
    "--client": ("kafka-python", ""),
    "--cluster": ("never", ""),
    "--config": ("num.io.threads", "=4", "node.id=7"),
    "--consumer-property": ("acks", "no.such.setting=1", "fetch.max.wait.ms=soon"),
    "--controllers": (*_COUNT, "10"),
    "--log-dirs": (*_COUNT, "10"),
    "--broker-at": ("10.0.0.1:9092", "=1", "10.0.0.1=x", "10.0.0.1=-1"),
    "--conf": ("spark", "executor.memory=4g", "spark.master=local", ""),
    "--curve": ("never", "./never", "{none}/"),
    "--delay": ("Metadata", "Nothing=1ms", "Metadata=soon", "Metadata=-1ms"),
    "--during": ("sleep", "restart", "restart:x", "rotate:1", ""),
    "--explain": ("t",),
    "--fail-if": ("p999", "nothing > 5%", "p999 > x", "p999 ? 5%", ""),
    "--exec": ("", "ssh '{{host}}", "ssh {{hots}}", "ssh {{}}"),
    "--format": ("zip", ""),
    "--guard": ("", "urp", "urp = 1", "metric > 5", "p99 > 50", "urp > 1 for ever"),
    "--guard-action": ("go on", ""),
    "--guard-quiet": ("soon", "-5s", "5y"),
    "--host": ("0.0.0.0", "example.org", ""),
    "--html": ("{run}", "{broken}", "{none}/page.html"),
    "--kafka-version": ("latest", "4", "", "../4.3.1"),
    "--leader-discovery": ("guess", ""),
    "--listen": ("9092", "127.0.0.1:x", "127.0.0.1:65536", ":1"),
    "--map": ("kafka1:9092", "kafka1=127.0.0.1:1", "kafka1:9092=", ":1=a:2"),
    "--master": ("nowhere", "spark://", "spark://host", "local[0]", "local[x]", ""),
    "--metrics-url": ("127.0.0.1:1", "ftp://127.0.0.1/metrics", "http://", ""),
    "--output": ("xml", ""),
    "--partition": ("t", "t:x", "t:-1"),
    "--payload-file": ("{none}", "{run}", "/dev/null"),
    "--policy": ("all", ""),
    "--port": ("0", "-1", "65536", "x"),
    "--price-per-gb": ("-1", "x", "nan", "inf"),
    "--producer-acks": ("0", "2", ""),
    "--producer-property": ("acks", "no.such.setting=1", "linger.ms=soon"),
    "--record": ("a name", "*", "{run}"),
    "--reporting-interval": ("0", "-1", "x"),
    "--require-local": ("most", "101%", "-1%", ""),
    "--rotate": ("", "a b"),
    "--run": ("",),
    "--until-met": _COUNT,
    "--reset": ("often", "0/s", "-1/s", "nan/s"),
    "--scale": ("large", ""),
    "--security": ("gssapi", ""),
    "--socket-buffer-size": ("-2", "x"),
    "--keep": ("5", "5s", "0s"),
    "--metrics": ("", "host", "70000", "host:port"),
    "--lost-after": ("soon", "0.5s"),
    "--throughput": ("0", "-2", "x", "nan", "inf"),
    "--timeout": ("0", "-1", "x", "nan", "inf"),
    "--timezone": ("Mars/Base", "", "25", "{none}=UTC", "{log}=Mars/Base"),
    "--to": ("{run}", "{broken}", "{broken}/below/it", ""),
    "--topic": ("", "a b"),
    "--topics": (*_COUNT, "1"),
    "--was-restarted": ("perhaps", ""),
    "--warmup-records": ("-1", "x", "10"),
    "--window": ("0s", "soon", "-1s", ""),
}
"""By an option's name, wherever it is."""

PATTERNS = (
    *("conform broker", "throttle set", "throttle adapt"),
    *("changes cancel", "clusters test", "reassign", "wait", "elect preferred", "elect unclean"),
    *(f"inspect {what}" for what in INSPECTED if what != "brokers"),
)
"""Whether a pattern matches a topic is for the cluster to say."""

WRONG_HERE: dict[tuple[str, str], tuple[str, ...]] = {
    ("reassign", "--replication-factor"): _COUNT,
    ("lab up", "--name"): ("a/b", "..", "", "a b"),
    ("lab down", "--name"): (),  # what is not there is as it is asked for
    ("perf consume", "--partition"): ("t", "t:x", "t:-1", "other:1"),
    ("elect preferred", "--until"): ("soon", "", "balanced,"),
    ("wait", "--until"): ("soon", "", "in-sync,", "in-sync preferred"),
    ("roll", "--broker"): ("x", "-1", "1.5", "1,2", "", "none"),
    ("runs compare", "--by"): (),
    **{
        (name, "--record"): ("a name", "*", "{broken}")
        for name in ("demo", *(f"experiment {name}" for name in EXPERIMENTS))
    },
    **{(f"experiment {name}", "--brokers"): (*_COUNT, "1", "101") for name in EXPERIMENTS},
    ("experiment closest-replica", "--client-rack"): ("nowhere", "rack-9"),
    **{(f"{name}", "--topic"): () for name in PATTERNS},
}
"""Of one command, in place of WRONG."""

ANY = frozenset({"--client-rack", "--expect-cluster", "--group", "--leaders-off"})
"""Options that take every text."""

ARGUMENTS = {
    **dict.fromkeys(WITH_A_LAB, ("x",)),
    "clusters add": ("' ' --bootstrap-server 127.0.0.1:1",),
    "clusters show": ("never",),
    "clusters remove": ("never --yes",),
    "clusters test": ("never", "one --cluster other", "one --bootstrap-server 127.0.0.1:1"),
    "analyze runs": ("{none}", "{broken}", "{folder}", "never", "{run} {folder}"),
    "analyze request-log": (
        *("''", "{none}", "{log} {none}", "hdfs://h/logs --follow"),
        *("{log} --follow --master yarn", "{log} --follow --before 2026-01-31T12:00:00"),
    ),
    "request-log pack": ("'' --to {new}", "{none} --to {new}", "{log} {none} --to {new}"),
    **dict.fromkeys(("undo", *(f"changes {v}" for v in CHANGES[1:4]), "changes cancel"), ("''",)),
    "experiment run": ("{none}", "{folder}", "{log}"),
    "throttle set": ("50", "0MB/s", "fast", "''"),
    "conform run": ("no-such-command", "--preset kipctl true", "--as proxy --rules 951-1 true"),
    **dict.fromkeys(("conform serve", "conform explain"), ("951", "951-99", "''")),
    "explain": ("few-move", "README", "''"),
    "report": ("{none}", "{broken}", "{folder}", "never", "{run} {folder}"),
    "runs show": ("{none}", "{folder}", "never"),
    "runs repair": ("{none}", "{folder}", "{run}", "never"),
    "runs compare": ("{run} {run}", "{run} {none}", "{folder} {run}", "{run} ,"),
    "runs export": ("{none} {new}", "{folder} {new}", "{run} {other}"),
    "runs remove": ("'' --yes", "{none} --yes", "{folder} --yes", "{run} {folder} --yes"),
}
"""Wrong arguments, in place of those in VALID."""
