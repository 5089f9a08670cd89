"""What a Spark session is set to, by where it runs, how much is read and what its user has set."""

from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.pipeline.place import Place, parse_conf
from kipctl.pipeline.settings import (
    connect_settings,
    defaults,
    initial_partitions,
    jvm_options,
    local_settings,
    properties,
    session_settings,
)
from kipctl.pipeline.start import conf_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("input_bytes", "configured", "parts"),
    [
        (0, None, 8),
        (0, 4, 8),
        (0, 200, 200),
        (100 * 16 * MIB, None, 100),
        (100 * 16 * MIB + 1, None, 101),
        (100 * 16 * MIB, 200, 200),
        (1 << 50, None, 2_000),
        (1 << 50, 20_000, 20_000),
    ],
)
def test_parts_follow_the_input_and_are_never_fewer_than_configured(
    input_bytes: int, configured: int | None, parts: int
) -> None:
    assert initial_partitions(input_bytes, configured) == parts


def test_what_the_user_has_configured_stays_but_not_what_answers_depend_on() -> None:
    own = {
        "spark.driver.memory": "8g",
        "spark.ui.enabled": "true",
        "spark.sql.session.timeZone": "Europe/Zurich",
        "spark.executor.cores": "4",
    }
    settings = session_settings("yarn", own)
    assert settings["spark.driver.memory"] == "8g"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.executor.cores"] == "4"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    by_variable = session_settings("yarn", {}, {"SPARK_DRIVER_MEMORY": "3g"})
    assert by_variable["spark.driver.memory"] == "3g"


def test_a_server_is_told_what_a_session_may_set_and_answers_do_not_depend_on_its_user() -> None:
    own = {"spark.sql.session.timeZone": "Europe/Zurich", "spark.sql.shuffle.partitions": "7"}
    settings = connect_settings(own, is_light=True)
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.sql.adaptive.enabled"] == "false"
    assert "spark.submit.deployMode" not in settings
    assert "spark.sql.adaptive.enabled" not in connect_settings({}, is_light=False)


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("sc://a", ("a:15002",)),
        ("sc://a:1/;use_ssl=true", ("a:1",)),
        ("sc://[::1]", ("[::1]:15002",)),
        ("spark://a:7077,b:7077", ("a:7077", "b:7077")),
        ("local[2]", ()),
    ],
)
def test_the_addresses_of_a_place_are_those_that_listen(
    master: str, addresses: tuple[str, ...]
) -> None:
    assert Place(master).addresses == addresses


@pytest.mark.parametrize(
    ("master", "scratch", "told"),
    [
        ("sc://", None, "is no Spark master"),
        ("sc://a/;token=secret", None, "all who see this machine's processes"),
        ("sc://a", "hdfs://b/tmp", "nothing can be removed there"),
    ],
)
def test_what_a_server_is_not_given_is_refused(master: str, scratch: str | None, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Place(master, scratch=scratch)


def test_the_place_is_the_one_given_whatever_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master spark://127.0.0.1:1\nspark.submit.deployMode cluster\nspark.ui.enabled true\n"
        "spark.a.secret hidden\nspark.sql.session.timeZone UTC\n"
    )
    for place in (Place(), Place("yarn")):
        conf = conf_of(place, {})
        assert conf["spark.master"] == place.master
        assert conf["spark.submit.deployMode"] == "client"
        # What Spark reads itself is not told again.
        assert not {"spark.a.secret", "spark.ui.enabled", "spark.sql.session.timeZone"} & set(conf)
    assert conf_of(Place(conf={"spark.a.secret": "own"}), {})["spark.a.secret"] == "own"


def test_a_cluster_is_left_its_own_partitions_and_addresses() -> None:
    elsewhere = session_settings("spark://10.0.0.1:7077")
    assert not {"spark.sql.shuffle.partitions", "spark.driver.host"} & set(elsewhere)
    for here in ("local[4]", "spark://127.0.0.1:7077", "spark://localhost:7077"):
        assert session_settings(here)["spark.driver.host"] == "127.0.0.1"


def test_little_is_read_in_one_part_without_compiling() -> None:
    light = local_settings(8, {}, is_light=True)
    assert light["spark.sql.shuffle.partitions"] == "1"
    assert light["spark.sql.codegen.wholeStage"] == "false"
    expressions = "spark.sql.codegen.factoryMode"
    assert light[expressions] == "NO_CODEGEN"
    assert local_settings(8, {}, is_light=True, compiles=True) == light | {expressions: "FALLBACK"}
    assert local_settings(8, {}, is_light=False) == {"spark.sql.shuffle.partitions": "16"}
    assert local_settings(1, {}, is_light=False) == {"spark.sql.shuffle.partitions": "4"}
    own = {"spark.sql.shuffle.partitions": "7"}
    assert not local_settings(1, own, is_light=False)
    assert "spark.sql.shuffle.partitions" not in local_settings(1, own, is_light=True)


def test_a_collector_that_the_user_has_chosen_stays() -> None:
    nothing: dict[str, str] = {}
    assert jvm_options(is_light=False, configured=nothing, environment=nothing) == []
    plain = jvm_options(is_light=True, configured=nothing, environment=nothing)
    compiled = ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]
    assert plain == [*compiled, "-XX:+UseSerialGC"]
    chosen = "-Da=b -XX:+UseG1GC"
    for configured, environment in (
        ({"spark.driver.extraJavaOptions": chosen}, nothing),
        (nothing, {"SPARK_SUBMIT_OPTS": chosen}),
        (nothing, {"JAVA_TOOL_OPTIONS": chosen}),
    ):
        options = jvm_options(is_light=True, configured=configured, environment=environment)
        assert options == compiled


def test_the_users_own_configuration_is_read_where_it_is(tmp_path: Path) -> None:
    text = "# memory\nspark.driver.memory   4g\n\nspark.a=b c \n  spark.b: x=y\nspark.empty\n"
    expected = {"spark.driver.memory": "4g", "spark.a": "b c", "spark.b": "x=y"}
    assert properties(text) == expected
    assert defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert defaults({"SPARK_CONF_DIR": str(tmp_path)}) == expected


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_bytes("spark.app.name größe".encode("latin-1"))
    with pytest.raises(UsageError, match=f"{file} cannot be read: .*utf-8"):
        defaults({"SPARK_CONF_DIR": str(tmp_path)})
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match=f"{file} cannot be read: Is a directory"):
        defaults({"SPARK_CONF_DIR": str(tmp_path)})


def test_settings_are_given_as_key_and_value() -> None:
    assert parse_conf(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("spark.a", "a=b", "spark.master=local", "spark.kipctl.scratch=/x"):
        with pytest.raises(UsageError):
            parse_conf([wrong])


@pytest.mark.parametrize("master", ["here", "spark://", "spark://host", "spark://a:1,b", "local2"])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(UsageError):
        Place(master)


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("yarn", False), ("spark://a:1,b:2", False)],
)
def test_what_is_one(master: str, is_local: bool) -> None:
    assert Place(master).is_local == is_local
