from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Dict, List, Literal, Optional  # noqa: UP035 - the documents' types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Doc

from asyncsched.errors import RunOptionError
from asyncsched.specs import CfgVal, Secret, get_type_name, runopt, runopts


@pytest.fixture
def opts() -> runopts:
    opts = runopts()
    opts.add("run_as_user", type_=str, help="user to run the job as")
    opts.add("cluster_id", type_=int, help="cluster to submit the job", required=True)
    opts.add("priority", type_=float, default=0.5, help="job priority")
    opts.add("preemptible", type_=bool, default=False, help="is the job preemptible")
    opts.add("tags", type_=list[str], default=["a"], help="tags")
    opts.add("env", type_=Dict[str, str], help="environment")  # noqa: UP006
    return opts


def test_repr_is_the_documents(opts: runopts) -> None:
    assert repr(opts) == (
        "    usage:\n"
        "        cluster_id=CLUSTER_ID,[run_as_user=RUN_AS_USER],[priority=PRIORITY],"
        "[preemptible=PREEMPTIBLE],[tags=TAGS],[env=ENV]\n"
        "\n"
        "    required arguments:\n"
        "        cluster_id=CLUSTER_ID (int)\n"
        "            cluster to submit the job\n"
        "\n"
        "    optional arguments:\n"
        "        run_as_user=RUN_AS_USER (str, None)\n"
        "            user to run the job as\n"
        "        priority=PRIORITY (float, 0.5)\n"
        "            job priority\n"
        "        preemptible=PREEMPTIBLE (bool, False)\n"
        "            is the job preemptible\n"
        "        tags=TAGS (list[str], ['a'])\n"
        "            tags\n"
        "        env=ENV (typing.Dict[str, str], None)\n"
        "            environment"
    )


def test_add_refuses_what_cannot_be() -> None:
    opts = runopts()
    with pytest.raises(ValueError, match="Required option: a must not specify default value"):
        opts.add("a", int, "help", default=1, required=True)
    for default in ("1", True, 1.5):
        with pytest.raises(TypeError, match="Option: a, must be of type: int"):
            opts.add("a", int, "help", default=default)
    for type_ in (object, tuple, list[int], dict[str, int], bytes):
        with pytest.raises(TypeError, match="Option: a, cannot be of type: "):
            opts.add("a", type_, "help")
    assert 0 == len(opts)


def test_it_is_a_collection(opts: runopts) -> None:
    assert 6 == len(opts)
    assert "tags" in opts
    assert "tag" not in opts
    assert runopt(0.5, float, False, "job priority") == opts.get("priority") == dict(opts)["priority"]
    assert opts.get("nosuch") is None


def test_merging(opts: runopts) -> None:
    other = runopts()
    other.add("priority", str, "another", default="high")
    other.add("quiet", bool, "less", default=False)
    merged = opts | other

    assert (6, 2, 7) == (len(opts), len(other), len(merged))
    assert "high" == merged.resolve({"cluster_id": 1})["priority"]
    opts.update(other)
    assert dict(merged) == dict(opts)


def test_resolve_fills_in_defaults(opts: runopts) -> None:
    cfg: dict[str, CfgVal] = {"cluster_id": 1, "priority": None, "tags": ["x"]}
    resolved = opts.resolve(cfg)

    assert resolved == {
        "run_as_user": None,
        "cluster_id": 1,
        "priority": 0.5,
        "preemptible": False,
        "tags": ["x"],
        "env": None,
    }
    assert {"cluster_id": 1, "priority": None, "tags": ["x"]} == cfg


def test_resolve_shares_no_list(opts: runopts) -> None:
    tags = ["x"]
    first, second = opts.resolve({"cluster_id": 1}), opts.resolve({"cluster_id": 1, "tags": tags})
    for resolved in (first, second):
        assert isinstance(resolved["tags"], list)
        resolved["tags"].append("y")

    assert ["a"] == opts.resolve({"cluster_id": 1})["tags"]
    assert ["x"] == tags


@pytest.mark.parametrize(
    ("cfg", "key", "message"),
    [
        ({}, "cluster_id", "Required run option: cluster_id, must be provided and not `None`"),
        ({"cluster_id": None}, "cluster_id", "Required run option: cluster_id"),
        (
            {"cluster_id": 1, "prioritty": 1.0},
            "prioritty",
            r"Unknown run option: prioritty; did you mean `priority`\?",
        ),
        ({"cluster_id": 1, "TAGS": ["a"]}, "TAGS", "did you mean `tags`"),
        ({"cluster_id": 1, "clusterId": 1}, "clusterId", "did you mean `cluster_id`"),
        ({"cluster_id": 1, "qqq": 1}, "qqq", "valid are: run_as_user, cluster_id, priority"),
        ({"cluster_id": "1"}, "cluster_id", r"must be of type: int, but was: '1' \(str\)"),
        ({"cluster_id": "API_TOKEN=hunter2"}, "cluster_id", r"but was: a text with `=` \(str\)"),
        ({"cluster_id": True}, "cluster_id", "must be of type: int, but was: True"),
        ({"cluster_id": 1, "preemptible": 1}, "preemptible", "must be of type: bool, but was: 1"),
        ({"cluster_id": 1, "preemptible": "yes"}, "preemptible", "must be of type: bool, but was: 'yes'"),
        ({"cluster_id": 1, "priority": False}, "priority", "must be of type: float, but was: False"),
        ({"cluster_id": 1, "run_as_user": 5}, "run_as_user", "must be of type: str, but was: 5"),
        ({"cluster_id": 1, "tags": "x"}, "tags", r"must be of type: list\[str\], but was: 'x'"),
        ({"cluster_id": 1, "tags": [1]}, "tags", r"must be of type: list\[str\], but was: list\[int\]$"),
        (
            {"cluster_id": 1, "env": {"A": 1}},
            "env",
            r"must be of type: typing.Dict\[str, str\], but was: dict\[str, int\]$",
        ),
        ({"cluster_id": 1, "env": ["A"]}, "env", r"but was: list\[str\]$"),
    ],
)
def test_resolve_refuses(opts: runopts, cfg: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(RunOptionError, match=message) as caught:
        opts.resolve(cfg)

    assert key == caught.value.key
    assert isinstance(caught.value, ValueError)


def test_an_int_is_a_float(opts: runopts) -> None:
    assert 2 == opts.resolve({"cluster_id": 1, "priority": 2})["priority"]


def test_json(opts: runopts) -> None:
    cfg = {"priority": 2, "tags": ["a,b"], "env": {"A": "b"}, "run_as_user": None}

    assert cfg == opts.cfg_from_json_repr(json.dumps(cfg))
    assert {} == opts.cfg_from_json_repr("{}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "are not JSON"),
        ("[1]", "are not a JSON object: got list"),
        ('{"tag": 1}', "did you mean `tags`"),
        ('{"cluster_id": "1"}', "must be of type: int"),
        ("[" * 100_000, "are not JSON"),
    ],
)
def test_json_mistakes(opts: runopts, text: str, message: str) -> None:
    with pytest.raises(RunOptionError, match=message):
        opts.cfg_from_json_repr(text)


def test_type_names() -> None:
    names = [get_type_name(tp) for tp in (str, list[str], List[str], dict[str, str])]  # noqa: UP006

    assert ["str", "list[str]", "typing.List[str]", "dict[str, str]"] == names


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    queue: Annotated[str, Doc("where to wait")]
    nice: Annotated[int | None, Doc("how nice")] = None
    share: Annotated[Optional[float], Doc("how much")] = 0.5  # noqa: UP045
    on_failure: Annotated[Literal["ignore", "stop"], Doc("what then")] = "ignore"
    tags: Annotated[list[str], Doc("tags")] = field(default_factory=lambda: ["t"])
    env: Annotated[dict[str, str] | None, Doc("environment")] = None
    quiet: bool = False
    computed: int = field(default=7, init=False)


def test_of_a_dataclass() -> None:
    assert dict(runopts.of(Options)) == {
        "queue": runopt(None, str, True, "where to wait"),
        "nice": runopt(None, int, False, "how nice"),
        "share": runopt(0.5, float, False, "how much"),
        "on_failure": runopt("ignore", str, False, "what then", choices=("ignore", "stop")),
        "tags": runopt(["t"], list[str], False, "tags"),
        "env": runopt(None, dict[str, str], False, "environment"),
        "quiet": runopt(False, bool, False, ""),
    }
    assert "on_failure=ON_FAILURE (ignore|stop, ignore)" in repr(runopts.of(Options))


def test_build() -> None:
    built = runopts.build(Options, {"queue": "gpu", "nice": 5, "tags": None})

    assert Options(queue="gpu", nice=5) == built
    assert built is runopts.build(Options, built)
    with pytest.raises(RunOptionError, match="Required run option: queue"):
        runopts.build(Options)
    with pytest.raises(RunOptionError, match="must be Options or a mapping, got a str"):
        runopts.build(Options, "queue=gpu")
    with pytest.raises(RunOptionError, match=r"on_failure, must be of type: ignore\|stop, but was: 'go'"):
        runopts.build(Options, {"queue": "gpu", "on_failure": "go"})


def test_no_default_is_shared_between_builds() -> None:
    first, second = (runopts.build(Options, {"queue": "gpu"}) for _ in range(2))

    assert first.tags == second.tags == ["t"]
    assert first.tags is not second.tags


_read = list[str]()


def _doc(text: str) -> Doc:
    _read.append(text)
    return Doc(text)


@dataclass
class ReadOnce:
    queue: Annotated[str, _doc("where to wait")] = "gpu"


def test_a_class_is_read_by_its_first_build_only() -> None:
    for _ in range(3):
        runopts.build(ReadOnce, {"queue": "cpu"})

    assert ["where to wait"] == _read


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"queue": 5}, "queue, must be of type: str, but was: 5"),
        ({"queue": None}, "Required run option: queue"),
        ({"queue": "gpu", "nice": "5"}, "nice, must be of type: int, but was: '5'"),
        ({"queue": "gpu", "on_failure": "go"}, r"on_failure, must be of type: ignore\|stop"),
    ],
)
def test_an_instance_is_checked_like_a_mapping(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RunOptionError, match=message):
        runopts.build(Options, Options(**wrong))


def test_choices_hold_for_text_too() -> None:
    assert {"on_failure": "stop"} == runopts.of(Options).cfg_from_str("on_failure=stop")
    with pytest.raises(RunOptionError, match="on_failure"):
        runopts.of(Options).cfg_from_str("on_failure=go")


@dataclass
class Unsuitable:
    size: tuple[int, int] = (1, 2)


@dataclass
class Ambiguous:
    size: int | str = 1


@dataclass
class NumberChoice:
    size: Literal[1, 2] = 1


@pytest.mark.parametrize("options", [Unsuitable, Ambiguous, NumberChoice])
def test_a_field_that_no_option_can_be(options: type) -> None:
    with pytest.raises(TypeError, match="Option: size, cannot be of type"):
        runopts.of(options)


def test_what_is_no_dataclass() -> None:
    with pytest.raises(TypeError, match="is not a dataclass"):
        runopts.of(int)


@given(st.text("mark", min_size=8, max_size=8))
def test_no_error_shows_a_secret(marker: str) -> None:
    opts = runopts()
    opts.add("env", dict[str, str], "environment")
    opts.add("api_key", int, "a key")
    opts.add("note", str, "a note")
    texts = [
        f"env=A_TOKEN:{marker},B",
        f"env=A_TOKEN={marker}",
        f'env=A_TOKEN:"{marker}',
        f'note="{marker}"x',
        f"api_key={marker}",
        f":{marker}",
        f"nosuch={marker}",
        f"env=A_TOKEN:{marker},A_TOKEN:{marker}",
    ]
    cfgs: list[dict[str, Any]] = [
        {"api_key": marker},
        {"env": {"A_TOKEN": marker, "B": 1}},
        {"env": [Secret(marker)]},
        {"note": [Secret(marker)]},
        {"nosuch": marker},
    ]
    for text in texts:
        with pytest.raises(RunOptionError) as caught:
            opts.cfg_from_str(text)
        assert marker not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"
    for cfg in cfgs:
        with pytest.raises(RunOptionError) as caught:
            opts.resolve(cfg)
        assert marker not in f"{caught.value} {caught.value!r}"
