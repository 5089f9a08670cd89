"""Plans in tables: what is read, and what is named when it cannot be."""

from pathlib import Path

import pytest
from reassigning import Reassigning

from kipctl.changes.plans.kafka_json import ReassignmentFile
from kipctl.changes.plans.plan_files import LeadersFile, read_assignment, read_plan
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import UsageError

A0, A1 = PartitionId("a", 0), PartitionId("a", 1)


def table(folder: Path, text: str, name: str = "plan.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "topic,partition,replicas\na,0,3 1 2\na,1,1 2 3\n",
        'Topic,Partition,Replicas\r\na,0,"3,1,2"\r\na,1,"1, 2, 3"\r\n',
        "topic;partition;replicas\na;0;3|1|2\n\na;1;1|2|3",
        "\ufefftopic\treplicas\tpartition\na\t3,1,2\t0\na\t1,2,3\t1\n",
    ],
)
def test_a_table_of_replicas(tmp_path: Path, text: str) -> None:
    read = read_plan(table(tmp_path, text))
    assert isinstance(read, ReassignmentFile)
    assert read.assignment == {A0: (3, 1, 2), A1: (1, 2, 3)}


def test_a_table_of_leaders(tmp_path: Path) -> None:
    path = table(tmp_path, "topic,partition,leader\na,1,3\na,0,1\n", "LEADERS.CSV")
    assert read_plan(path) == LeadersFile(path, {A1: 3, A0: 1})
    with pytest.raises(UsageError, match="replicas are needed here, and there are leaders alone"):
        read_assignment(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: there should be the headings topic,partition,replicas or topic,partition"),
        ("a,0,1 2\n", "line 1: there should be the headings"),
        ("topic,partition,replica\na,0,1\n", "line 1: there should be the headings"),
        ("topic,partition,replicas,leader\na,0,1 2,1\n", "line 1: there should be the headings"),
        ("topic,partition,replicas\n", "line 2: there should be at least one partition"),
        ("topic,partition,replicas\na,0,1,2\n", "line 2: there should be 3 cells, and there are 4"),
        ("topic,partition,replicas\n,0,1\n", "line 2: topic should be a name"),
        ("topic,partition,replicas\na,x,1\n", "line 2: a: partition should be a number from 0"),
        ("topic,partition,replicas\na,0,1 b\n", "line 2: a-0 needs replicas, such as 1 2 3"),
        ("topic,partition,replicas\na,0,\n", "line 2: a-0 needs replicas"),
        ("topic,partition,replicas\na,0,1 2 1\n", "line 2: a-0 names a broker twice: 1 2 1"),
        ("topic,partition,leader\na,0,none\n", "line 2: a-0 needs a leader, a broker's id"),
        ("topic,partition,leader\na,0,1\na,1,1\na,0,2\n", "line 4: a-0 stands there twice, first"),
        ('topic,partition,leader\na,0,"1"x\n', "line 2: this is not CSV"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = table(tmp_path, text)
    with pytest.raises(UsageError) as error:
        read_plan(path)
    assert f"{path}: {problem}" in error.value.what


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_plan(tmp_path / "none.csv")
    (tmp_path / "plan.csv").write_bytes(b"topic\xff")
    with pytest.raises(UsageError, match="is no text in UTF-8"):
        read_plan(tmp_path / "plan.csv")


REPLICAS = {A0: (1, 2, 3), A1: (2, 3, 1)}


def test_a_table_of_replicas_is_carried_out(fake: Reassigning) -> None:
    path = table(fake.state, "topic,partition,replicas\na,0,1 2 4\n")
    fake.kipctl(f"reassign --plan {path} --yes")
    assert fake.altered == [{A0: (1, 2, 4)}]
    path = table(fake.state, "topic,partition,replicas\na,1,2 3 1\na,0,1 2 9\n")
    ran = fake.kipctl(f"reassign --plan {path} --yes", status=2)
    assert "plan.csv: line 3: a-0: broker 9 is not alive" in ran.err


def test_a_table_of_leaders_is_carried_out_and_elected(fake: Reassigning) -> None:
    path = table(fake.state, "topic,partition,leader\na,0,3\na,1,2\n")
    fake.kipctl(f"reassign --plan {path} --yes")
    assert fake.altered == [{A0: (3, 1, 2)}]
    assert fake.partitions[A0].leader == 3
