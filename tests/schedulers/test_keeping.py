"""No note keeps a secret, wherever it stands and however it is written; what is missing is named at a resubmission.

On every backend: from the app to what is sent, and from what a service keeps of it back to an app.
"""

from __future__ import annotations

import base64
import copy
import html
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncsched.errors import AsyncSchedError, ConfigError
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers._common.roles import note_by_hand, note_of_role, role_of_note
from asyncsched.schedulers.aws_batch import AWSBatchOpts
from asyncsched.schedulers.aws_batch.names_note import note_tags
from asyncsched.schedulers.aws_batch.names_note import read_note as read_tags
from asyncsched.schedulers.aws_batch.names_tags import metadata_of
from asyncsched.schedulers.aws_batch.request import make_request as make_batch_job
from asyncsched.schedulers.docker import DockerOpts
from asyncsched.schedulers.docker import names as docker_names
from asyncsched.schedulers.docker.request import completed
from asyncsched.schedulers.docker.request import make_request as make_docker_job
from asyncsched.schedulers.gcp_batch import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.names_note import make_note
from asyncsched.schedulers.gcp_batch.names_note import read_note as read_variable
from asyncsched.schedulers.gcp_batch.request import make_request as make_gcp_job
from asyncsched.schedulers.kubernetes import KubernetesOpts
from asyncsched.schedulers.kubernetes import names as kubernetes_names
from asyncsched.schedulers.kubernetes.names_note import read_note as read_annotation
from asyncsched.schedulers.kubernetes.request import make_request as make_kubernetes_job
from asyncsched.schedulers.kubernetes.request import to_wire as kubernetes_wire
from asyncsched.schedulers.local import LocalOpts
from asyncsched.schedulers.local.images import CWDImageProvider, Fetched
from asyncsched.schedulers.local.request import make_request as make_popen_request
from asyncsched.schedulers.local.request import to_wire as local_wire
from asyncsched.schedulers.slurm import SlurmOpts
from asyncsched.schedulers.slurm.request import make_request as make_slurm_job
from asyncsched.schedulers.slurm.request import to_wire as slurm_wire
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, Role, Secret, SecretRef, VolumeMount
from asyncsched.specs.keeping import Keeper
from asyncsched.specs.mentions import LONGEST_TEXT, may_hold_secret, which_may_hold_secrets
from asyncsched.specs.not_kept import NOT_KEPT, NotKept


class Kept(NamedTuple):
    """What a backend keeps beside a job, and the app as it is told from that."""

    note: object
    roles: list[Role]
    metadata: Mapping[str, str]


def local_cwd(app: AppDef) -> Kept:
    fetched = {role.name: Fetched(CWDImageProvider(), "", "/work", "/work") for role in app.roles}
    request = make_popen_request(app, "job-x1", LocalOpts(), fetched, log_dir=Path("/logs"), path="/bin")
    wire = local_wire(request, app, session="me", digest="d", environ={}, cwd="/work")
    return Kept([wire["spec"], wire["name"]], *read_app_note(_through_json(wire["spec"])))


def slurm(app: AppDef) -> Kept:
    job = make_slurm_job(app, "job-x1", SlurmOpts(), job_dir="/shared", cwd="/work")
    record = asdict(slurm_wire(job, app, session="me", digest="d", created_ns=1).record)
    return Kept(record, *read_app_note(_through_json(record["note"])))


def local_docker(app: AppDef) -> Kept:
    job = make_docker_job(app, "job-x1", DockerOpts(), session="me", environ={}, version="1")
    labels = [each.kwargs["labels"] for each in completed(job, app, session="me", version="1").containers]
    roles = [role_of_note(docker_names.read_role_note(each)) for each in labels]
    return Kept(labels, roles, read_app_note({"metadata": docker_names.read_metadata_note(labels[0])})[1])


def aws_batch(app: AppDef) -> Kept:
    options = AWSBatchOpts(queue="q", user="me")
    tags = cast(
        "dict[str, str]", make_batch_job(app, options, app_id="q:job-x1", session="me", version="1").job_def["tags"]
    )
    row: Any = {"jobId": "1", "tags": tags | note_tags(app, 40)}
    roles = [role_of_note(read_tags(row, number)) for number in range(len(app.roles))]
    return Kept([tags, [read_tags(row, number) for number in range(len(app.roles))]], roles, metadata_of(row))


def gcp_batch(app: AppDef) -> Kept:
    job = make_gcp_job(app, GCPBatchOpts(project="p", location="l"), app_id="p:l:job-x1", session="me", version="1")
    note = make_note(app, name=app.name, session="me", pending_timeout=None)
    told = read_variable("job-x1", note)
    return Kept([note, job.job_def["labels"]], told.roles, told.metadata)


def kubernetes(app: AppDef, kind: Any) -> Kept:
    options = KubernetesOpts(queue="test" if kind == "volcano" else None)
    job = make_kubernetes_job(app, "default:job-x1", options, kind=kind, session="me", version="1")
    metadata = kubernetes_wire(job, "default:job-x1", "d", app).job["metadata"]
    tasks = [(role.name, role.num_replicas) for role in app.roles]
    return Kept(metadata, *read_annotation(metadata["annotations"][kubernetes_names.ROLES], tasks))


BACKENDS: dict[str, Callable[[AppDef], Kept]] = {
    "local_cwd": local_cwd,
    "local_docker": local_docker,
    "aws_batch": aws_batch,
    "volcano": lambda app: kubernetes(app, "volcano"),
    "job": lambda app: kubernetes(app, "job"),
    "gcp_batch": gcp_batch,
    "slurm": slurm,
}


def _through_json(value: object) -> Any:
    return json.loads(json.dumps(value))


def plain_app() -> AppDef:
    """Return an app in which every place has something that is no secret."""
    role = Role(
        "main",
        "repo/image:1",
        entrypoint="sh",
        args=["-c", "echo $A_TOKEN"],
        env={"A": "1", "B": "x y"},
        resource=Resource(1, 0, 1024, {"kind": "small"}),
        port_map={"http": 80},
        metadata={"a": "b", "c": {"d": ["e", 1, None, True]}},
    )
    return AppDef("job", [role], metadata={"team": "blue"})


Place = Callable[[AppDef, str], object]
Nested = Callable[[AppDef, Any], object]

PLACES: dict[str, Place] = {
    "image": lambda app, text: setattr(app.roles[0], "image", text),
    "base_image": lambda app, text: setattr(app.roles[0], "base_image", text),
    "entrypoint": lambda app, text: setattr(app.roles[0], "entrypoint", text),
    "argument": lambda app, text: app.roles[0].args.append(text),
    "first argument": lambda app, text: app.roles[0].args.insert(0, text),
    "variable": lambda app, text: app.roles[0].env.update(X=text),
    "variable's name": lambda app, text: app.roles[0].env.update({text: "x"}),
    "metadata": lambda app, text: app.roles[0].metadata.update(x=text),
    "name in metadata": lambda app, text: app.roles[0].metadata.update({text: "x"}),
    "nested metadata": lambda app, text: app.roles[0].metadata.update(x={"y": ["z", text]}),
    "nested name in metadata": lambda app, text: app.roles[0].metadata.update(x=[{text: "y"}]),
    "app's metadata": lambda app, text: app.metadata.update(x=text),
    "name in the app's metadata": lambda app, text: app.metadata.update({text: "x"}),
    "source of a bind mount": lambda app, text: app.roles[0].mounts.append(BindMount(text, "/x")),
    "target of a bind mount": lambda app, text: app.roles[0].mounts.append(BindMount("/x", text)),
    "source of a volume": lambda app, text: app.roles[0].mounts.append(VolumeMount(text, "/x")),
    "target of a volume": lambda app, text: app.roles[0].mounts.append(VolumeMount("x", text)),
    "source of a device": lambda app, text: app.roles[0].mounts.append(DeviceMount(text, "/dev/x")),
    "target of a device": lambda app, text: app.roles[0].mounts.append(DeviceMount("/dev/x", text)),
    "permissions of a device": lambda app, text: app.roles[0].mounts.append(DeviceMount("/dev/x", "/dev/x", text)),
    "port's name": lambda app, text: app.roles[0].port_map.update({text: 81}),
    "device's name": lambda app, text: app.roles[0].resource.devices.update({text: 1}),
    "capability": lambda app, text: app.roles[0].resource.capabilities.update(x=text),
    "capability's name": lambda app, text: app.roles[0].resource.capabilities.update({text: 1}),
    "nested capability": lambda app, text: app.roles[0].resource.capabilities.update(x=[text]),
    "role's name": lambda app, text: setattr(app.roles[0], "name", text),
    "app's name": lambda app, text: setattr(app, "name", text),
    "another role": lambda app, text: app.roles.append(Role("other", "i", entrypoint="x", args=[text])),
}

FORMS = [
    "DB_PASSWORD=~",
    "--password=~",
    "--password ~",
    "+password ~",
    "export API_TOKEN=~; run",
    "export API_TOKEN='~' && run",
    "API_KEY : ~",
    "X-Api-Key:~",
    "x-api-key: ~",
    "password = ~",
    "password := '~'",
    "f(h, password='~')",
    "f(h, password = x or '~')",
    "dict(password=~)",
    '{"password": "~"}',
    '{"passwords": ["x", "~"]}',
    r"{\"password\": \"~\"}",
    r'{\\"password\\": \\"~\\"}',
    r'{"pass\u0077ord": "~"}',
    "password: |\n  ~\n",
    "password: >-\n  ~\n",
    "password: &~ x",
    "x: &password ~",
    "password:\n  - ~\n",
    "password: !!str ~",
    "postgres://u:~@h/db",
    "u:~/x@h",
    "u:$~@h",
    "u:~@h",
    "postgres://u:~/x@h",
    "postgres://u:$~@h",
    "https://~@h/x.git",
    "redis://:~@h",
    "https://h/x?access_token=~",
    "Authorization: Bearer ~",
    "authorization:Basic ~",
    "Bearer ~",
    "$password = '~'",
    "${PASSWORD:-~}",
    "${PASSWORD-~}",
    "$cfg.Password='~'",
    "set PASSWORD ~",
    "<password>~</password>",
    "Server=h;Pwd=~;",
    "pwd=~",
    "--pwd ~",
    "machine h login u password ~",
    "-----BEGIN RSA PRIVATE KEY-----\nS",
    "x" * 300 + "_password=~",
    "password_" + "x" * 300 + "=~",
    "it's the password, ~",
    "sshpass -p ~; SSHPASS=~",
    "keytool -storepass ~",
    "DB_PW=~",
    "curl -u me:~ https://h/x",
    "docker login -u me -p ~ h",
    "curl --user 'me:~' h",
    "wget --proxy-user=me:~",
    '{"auths": {"h": {"auth": "~"}}}',
    "$password ||= '~'",
    "$password //= '~'",
    "$password .= '~'",
    "$password += '~'",
    "die if $password eq '~'",
    "die unless '~' eq $password",
    "case $DB_PASSWORD in ~) run;; esac",
    "[ ~ = $DB_PASSWORD ]",
    "[ ~ -eq $DB_PASSWORD ]",
    "[[ ~ == $DB_PASSWORD ]]",
    "test '~' = \"$DB_PASSWORD\"",
    "test x$DB_PASSWORD = x~",
    "check $DB_PASSWORD $USER ~",
    "check ~ $USER $DB_PASSWORD",
    "my ($u,$password)=('me','~')",
    "my ($u, $password) = ('me', '~')",
    "for p in $PASSWORD ~; do x; done",
    "read $PASSWORD <<< ~",
    "echo $PASSWORD-~",
    "echo $PASSWORD # ~",
    "$password{db} = '~'",
    "$password->set('~')",
    "$cfg->{password} = '~'",
    "<?php define($password, '~'); ?>",
    "postgres://u:~ more@h/db",
    "postgres://u:more ~@h/db",
]

GIVEN: dict[str, Nested] = {
    "under a variable's name": lambda app, text: app.roles[0].env.update(DB_PASSWORD=text),
    "after an option": lambda app, text: app.roles[0].args.extend(["--password", f"-{text}"]),
    "after another option": lambda app, text: app.roles[0].args.extend(["+api-key", text]),
    "after an option in the entrypoint": lambda app, text: _run(app, "run --password", text),
    "after an option that is the entrypoint": lambda app, text: _run(app, "--token", text),
    "after the option of a login": lambda app, text: app.roles[0].args.extend(["login", "-u", "me", "-p", text]),
    "after a user's option": lambda app, text: app.roles[0].args.extend(["-u", f"me:{text}"]),
    "a list in metadata": lambda app, text: app.roles[0].metadata.update(passwords=["x", text]),
    "a dict in metadata": lambda app, text: app.roles[0].metadata.update(given={"password": {"a": [text]}}),
    "a short entry in metadata": lambda app, text: app.roles[0].metadata.update(x={"pass": "1", "y": text}, Pass=text),
    "a pair in metadata": lambda app, text: app.roles[0].metadata.update(given=[{"name": "password", "value": text}]),
    "another pair": lambda app, text: app.roles[0].metadata.update(given=[{"Value": text, "Key": "password"}]),
    "a name below": lambda app, text: app.roles[0].metadata.update(passwords={text: 1}),
    "a list in capabilities": lambda app, text: app.roles[0].resource.capabilities.update(passwords=[text]),
    "a dict in capabilities": lambda app, text: app.roles[0].resource.capabilities.update(password={"a": text}),
    "the app's metadata": lambda app, text: app.metadata.update(API_TOKEN=text),
    "a declared variable": lambda app, text: app.roles[0].env.update(GIVEN=Secret(text)),
    "a declared argument": lambda app, text: app.roles[0].args.append(Secret(text)),
    "a declared part of metadata": lambda app, text: app.roles[0].metadata.update(given=[Secret(text)]),
    "a declared part of the app's metadata": lambda app, text: app.metadata.update(given=Secret(text)),
    "a declared capability": lambda app, text: app.roles[0].resource.capabilities.update(given=Secret(text)),
}


def _run(app: AppDef, entrypoint: str, text: str) -> None:
    app.roles[0].entrypoint = entrypoint
    app.roles[0].args.insert(0, text)


TOKENS = st.text("abcdefXYZ0123456789_", min_size=8, max_size=12).map(lambda text: f"Zq7{text}9")


def check(backend: str, app: AppDef, token: str) -> str:
    """Return why the app is refused, at once or when it is submitted again; empty if it runs as it was."""
    before = copy.deepcopy(app)
    try:
        check_app(app)
        kept = BACKENDS[backend](app)
    except (AsyncSchedError, ValueError) as error:
        return str(error)  # nothing has been sent

    assert before == app
    assert token not in json.dumps(kept.note)
    assert token not in repr((kept.roles, kept.metadata))
    why = _refusal(AppDef(app.name, kept.roles, dict(kept.metadata)))
    assert token not in why
    assert why or (app.roles, app.metadata) == (kept.roles, kept.metadata)
    return why


def _refusal(app: AppDef) -> str:
    try:
        check_app(app)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore:Could not find named device")
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(token=TOKENS, place=st.sampled_from([*PLACES]), form=st.sampled_from(FORMS))
def test_a_text_that_names_a_secret_is_in_no_note(backend: str, token: str, place: str, form: str) -> None:
    app = plain_app()
    PLACES[place](app, form.replace("~", token))

    assert check(backend, app, token)


@pytest.mark.filterwarnings("ignore:Could not find named device")
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(token=TOKENS, given_as=st.sampled_from([*GIVEN]))
def test_what_is_given_as_a_secret_is_in_no_note(backend: str, token: str, given_as: str) -> None:
    app = plain_app()
    GIVEN[given_as](app, token)

    assert check(backend, app, token)


@pytest.mark.filterwarnings("ignore:Could not find named device")
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(token=TOKENS, given_as=st.sampled_from([*GIVEN]), place=st.sampled_from([*PLACES]))
def test_a_secret_that_is_said_again_is_in_no_note(backend: str, token: str, given_as: str, place: str) -> None:
    assume(given_as != "a name below")  # names are said again everywhere
    assume(place not in ("entrypoint", "first argument") or "entrypoint" not in given_as)  # it would stand elsewhere
    app = plain_app()
    GIVEN[given_as](app, token)
    PLACES[place](app, f"x-{token}")

    assert check(backend, app, token)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_app_without_secrets_runs_again_as_it_was(backend: str) -> None:
    assert "" == check(backend, plain_app(), "no token")


@given(token=TOKENS, form=st.sampled_from(FORMS), around=st.tuples(st.text(max_size=9), st.text(max_size=9)))
def test_each_form_is_seen_wherever_it_stands(token: str, form: str, around: tuple[str, str]) -> None:
    text = form.replace("~", token)

    assert may_hold_secret(text)
    assert may_hold_secret("\n".join([around[0], text, around[1]]))
    assert [True] == [*which_may_hold_secrets([*"abc" * 50, text])][-1:]


HARMLESS = [
    "login $USER ${DB_PASSWORD} -v",
    "docker login -p $API_TOKEN; ssh -p 22 h",
    "$API_TOKEN",
    '"${API_TOKEN}"',
    "run --value $API_TOKEN --x y; echo $API_TOKEN && echo b",
    "export A=$API_TOKEN B='${API_TOKEN}' C=d",
    'cd /a\nlogin -t "$API_TOKEN" user | tee x',
    "see http://h:80/x and mail me@example.org",
    "echo $API_TOKEN",
    "echo ${API_TOKEN}",
    'test -n "$DB_PASSWORD"; run',
    "echo $API_TOKEN $PLAIN",
    'login "$USER" "${DB_PASSWORD}" $API_TOKEN --now',
    "cd $(pwd)",
    "pwd; ls",
    "try: pass\nexcept: pass",
    "repo:5000/image@sha256:aa",
    "repo:5000/image:1@sha256:aa",
    "git+https://github.com/o/r@main",
    "me@example.org",
    "--max-tokens=3",
    "--tokenizer x",
    "TOKENIZER_PATH=x",
    "key: value",
    "monkey --sort-key a",
    "@decorator",
    "\x1b[31mred",
    "http://h:80/x?y=z",
    "docker run -u 1000:1000 i",
    "gcloud auth login; compass --bypass",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_holds_no_secret_is_kept(text: str) -> None:
    app = plain_app()
    app.roles[0].args = [text]

    assert "" == check("local_cwd", app, "no token")


LOST: list[tuple[str, dict[str, Any]]] = [
    ("argument 0, argument 1 were", {"args": ["--password", "-S3cr3t"]}),
    ("entrypoint, argument 0 were", {"entrypoint": "run --password", "args": ["S3cr3t"]}),
    ("metadata passwords was", {"metadata": {"passwords": ["S3cr3t"]}}),
    ("metadata db was", {"metadata": {"db": {"pass": 98765432}}}),
    ("metadata db was", {"metadata": {"db": {"pwd": "abc"}}}),
    ("metadata db was", {"metadata": {"db": [{"name": "pass", "value": 1}]}}),
    ("metadata db, metadata x were", {"metadata": {"db": {"pwd": 98765432}, "x": "at 98765432"}}),
    ("capability db was", {"resource": Resource(1, 0, 1, {"db": {"pass": 98765432}})}),
    ("capability password was", {"resource": Resource(1, 0, 1, {"password": {"a": "S3cr3t"}})}),
    ("mount 0 was", {"mounts": [BindMount("/x", "/password=S3cr3t")]}),
    ("mount 0 was", {"mounts": [DeviceMount("/x", "/x", "password=S3cr3t")]}),
    ("variable *** was", {"env": {"password S3cr3t": "1"}}),
    ("metadata *** was", {"metadata": {"password:S3cr3t": "1"}}),
    ("capability *** was", {"resource": Resource(1, 0, 1, {"password:S3cr3t": 1})}),
    ("kept by the scheduler that described it: port_map", {"port_map": {"password:S3cr3t": 1}}),
    ("kept by the scheduler that described it: resource", {"resource": Resource(1, 0, 1, {}, {"password S3cr3t": 1})}),
    ("kept by the scheduler that described it: resource", {"resource": Resource(True, 0, 1)}),
    ("kept by the scheduler that described it: resource", {"resource": Resource(1, 0, 1, {}, {"x": cast("int", "2")})}),
    ("kept by the scheduler that described it: port_map", {"port_map": {"x": cast("int", "2")}}),
    ("metadata x was", {"metadata": {"x": {1: "a"}}}),
    ("metadata x was", {"metadata": {"x": float("inf")}}),
    ("argument 0 was", {"args": ["x" * (LONGEST_TEXT + 1)]}),
    ("variable A? was", {"env": {"A\udc80": "1"}}),
]  # fmt: skip


@pytest.mark.parametrize(("told", "fields"), LOST)
def test_what_is_not_kept_is_named(told: str, fields: dict[str, Any]) -> None:
    role = Role(**{"name": "main", "image": "i", "entrypoint": "e"} | fields)
    note = _through_json(note_of_role(role))

    assert "S3cr3t" not in json.dumps(note)
    with pytest.raises(ConfigError) as caught:
        check_app(AppDef("a", [role_of_note(note)]))
    assert told in str(caught.value)


def test_permissions_of_a_device_that_are_none_stay_none() -> None:
    role = Role("main", "i", entrypoint="e", mounts=[DeviceMount("/x", "/y", "")])

    assert role == role_of_note(_through_json(note_of_role(role)))


def test_what_is_missing_and_what_did_not_fit_are_both_told() -> None:
    from asyncsched.schedulers._common.roles import shortened

    role = Role("main", "i", entrypoint="e", env={"A": "x" * 2000}, port_map={"password S3cr3t": 1})
    note = shortened(note_of_role(role), lambda each: len(json.dumps(each)) < 1000)
    why = cast("NotKept", role_of_note(note).env[NOT_KEPT]).why

    assert "port_map" in why
    assert "env did not fit" in why


REFUSED: list[tuple[str, AppDef]] = [
    ("the name of role 0 contains", AppDef("a", [Role("x-S3cr3t", "i", entrypoint="e", env={"A": Secret("S3cr3t")})])),
    (
        "the name of role 0 contains",
        AppDef("a", [Role("x-S3cr3t99", "i", entrypoint="e", env={"API_KEY": "S3cr3t99"})]),
    ),
    ("the name of role 0 contains", AppDef("a", [Role("password=S3cr3t", "i", entrypoint="e")])),
    ("the name of role 0 is a Secret", AppDef("a", [Role(Secret("S3cr3t"), "i", entrypoint="e")])),
    ("the name of the app contains", AppDef("S3cr3t", [Role("x", "i", entrypoint="e", args=[Secret("S3cr3t")])])),
    ("a variable's name of role 'x'", AppDef("a", [Role("x", "i", entrypoint="e", env={Secret("S3cr3t"): "1"})])),
    ("a port's name of role 'x'", AppDef("a", [Role("x", "i", entrypoint="e", port_map={Secret("S3cr3t"): 1})])),
    ("src_path of mount 0", AppDef("a", [Role("x", "i", entrypoint="e", mounts=[BindMount(Secret("S3cr3t"), "/x")])])),
    ("src of mount 0", AppDef("a", [Role("x", "i", entrypoint="e", mounts=[VolumeMount(Secret("S3cr3t"), "/x")])])),
    ("dst_path of mount 0", AppDef("a", [Role("x", "i", entrypoint="e", mounts=[BindMount("/x", Secret("S3cr3t"))])])),
    (
        "in the metadata of role 'x' must be a str, got 1",
        AppDef("a", [Role("x", "i", entrypoint="e", metadata={cast("str", 1): 2})]),
    ),
    (
        "the app's metadata must be a str, got 1",
        AppDef("a", [Role("x", "i", entrypoint="e")], metadata={cast("str", 1): "2"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("told", "app"), REFUSED)
def test_a_secret_that_everybody_would_see_is_refused(told: str, app: AppDef) -> None:
    with pytest.raises(ConfigError) as caught:
        check_app(app)

    assert told in str(caught.value)
    assert "S3cr3t" not in str(caught.value)


def test_a_role_may_be_called_as_a_common_word_that_is_a_password() -> None:
    check_app(AppDef("a", [Role("postgres", "postgres:16", entrypoint="e", env={"POSTGRES_PASSWORD": "postgres"})]))


def test_what_a_request_was_made_with_by_hand_is_named_without_a_secret() -> None:
    assert "S3cr3t" not in json.dumps(note_by_hand(["image", "password=S3cr3t"], Keeper()))


def test_a_secret_of_one_role_is_not_kept_in_another() -> None:
    roles = [
        Role("a", "i", entrypoint="e", env={"A": Secret("S3cr3t")}),
        Role("b", "i", entrypoint="e", args=["x S3cr3t"]),
    ]

    assert "S3cr3t" not in json.dumps(app_note(AppDef("x", roles, metadata={"y": "S3cr3t"})))


def test_a_secret_that_the_service_keeps_is_kept_by_name() -> None:
    role = Role("main", "i", entrypoint="e", env={"DB_PASSWORD": SecretRef("db", "password")})

    assert role == role_of_note(_through_json(note_of_role(role)))


@pytest.mark.parametrize("unit", ["x", "key ", "key:", "@", "a:@", "$A_TOKEN ", "monkey ", "pwd "])
def test_of_a_long_text_so_much_is_looked_at_and_no_more(unit: str) -> None:
    """A text that no program can be given, or with a thousand places to look at, counts as one with a secret."""
    long = unit * (LONGEST_TEXT + 1)

    assert may_hold_secret(long[: LONGEST_TEXT + 1])
    assert (unit != "x") == may_hold_secret(long[:LONGEST_TEXT])


@pytest.mark.parametrize("said", ["x S3cr3t-9 y", "x S3cr3t-9\n", "UzNjcjN0LTk=", "x:UzNjcjN0LTkK", "UzNjcjN0LTk"])
def test_a_secret_that_ends_with_a_newline_is_not_said_without_it(said: str) -> None:
    role = Role("main", "i", entrypoint="e", env={"API_TOKEN": "S3cr3t-9\n", "X": said})

    assert said.strip("\n") not in json.dumps(note_of_role(role))


@pytest.mark.parametrize("secret", ["it's 'S3cr3t'", 'a b$c"d'])
def test_a_secret_is_found_as_a_shell_would_quote_it(secret: str) -> None:
    role = Role("main", "i", entrypoint="e", args=[f"login {shlex.quote(secret)}"], env={"A": Secret(secret)})

    assert [None] == note_of_role(role)["args"]


NUMBERED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "metadata": lambda number: {"metadata": {"otp": number}},
    "nested metadata": lambda number: {"metadata": {"x": {"y": ["z", number]}}},
    "a capability": lambda number: {"resource": Resource(1, 0, 1, {"otp": number})},
    "a device": lambda number: {"resource": Resource(1, 0, 1, {}, {"x": number})},
    "a port": lambda number: {"port_map": {"http": number}},
}


@pytest.mark.parametrize("place", NUMBERED)
@pytest.mark.parametrize("number", [48151623, 48151623.0, 48151623.5, -48151623, 1481516230])
@pytest.mark.parametrize("env", [{"PIN": Secret("48151623")}, {"DB_PASSWORD": "48151623"}])
def test_a_secret_of_digits_is_not_kept_as_a_number(place: str, number: Any, env: dict[str, str]) -> None:
    note = _through_json(note_of_role(Role("main", "i", entrypoint="e", env=env, **NUMBERED[place](number))))

    assert "48151623" not in json.dumps(note)
    with pytest.raises(ConfigError, match="kept by the scheduler"):
        check_app(AppDef("a", [role_of_note({**note, "env": {}})]))


@pytest.mark.parametrize(
    ("secret", "number"), [("00481516", 481516), ("4815.50", 4815.5), ("120000000000000000", 1.2e17)]
)
def test_a_secret_is_a_number_however_its_digits_are_written(secret: str, number: float) -> None:
    role = Role("main", "i", entrypoint="e", env={"PIN": Secret(secret)}, metadata={"otp": number})

    assert {"otp": "***"} == note_of_role(role)["metadata"]


def test_what_the_request_asks_for_is_kept_though_a_short_secret_stands_in_its_digits() -> None:
    """The service sees it there; a number elsewhere is kept no more than a text with that digit would be."""
    size = Resource(4, 4, 4096)
    role = Role(
        "main", "i", entrypoint="e", env={"PIN": Secret("4")}, num_replicas=4, max_retries=4, min_replicas=4,
        resource=size, metadata={"a": 14, "b": 5, "c": "14"},
    )  # fmt: skip
    again = role_of_note(_through_json(note_of_role(role)))

    assert (size, 4, 4, 4) == (again.resource, again.num_replicas, again.max_retries, again.min_replicas)
    assert {"a": NotKept("a secret"), "b": 5, "c": NotKept("a secret")} == again.metadata


def _in_base64(text: str, make: Callable[[bytes], bytes] = base64.b64encode) -> str:
    return make(text.encode()).decode()


ENCODED: dict[str, Callable[[str], str]] = {
    "base64": _in_base64,
    "base64 after a user": lambda text: _in_base64(f"user:{text}"),
    "base64 of JSON": lambda text: _in_base64(f'{{"p":"{text}"}}'),
    "base64 of other JSON": lambda text: _in_base64(f'{{ "p": "{text}" }}'),
    "base64 of a long text": lambda text: _in_base64("x" * 100 + text + "y" * 100),
    "base64 for URLs": lambda text: _in_base64(f"??>{text}??", base64.urlsafe_b64encode),
    "base64 over many lines": lambda text: _in_base64("x" * 50 + text + "y" * 100, base64.encodebytes),
    "hexadecimal digits": lambda text: f"a {text.encode().hex()}",
    "large hexadecimal digits": lambda text: f"user:{text}".encode().hex().upper(),
}

SPELLED: dict[str, Callable[[str], str]] = {
    "a URL": lambda text: f"x?y={quote(text, safe='')}",
    "a URL in small letters": lambda text: quote(text, safe="").replace("%2F", "%2f").replace("%3C", "%3c"),
    "JSON": lambda text: json.dumps({"a": text}),
    "JSON in JSON": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "JSON in HTML": lambda text: json.dumps({"a": text}).replace("/", "\\/"),
    "HTML": lambda text: f"<a b='{html.escape(text)}'>",
    "HTML with numbers": lambda text: text.replace("<", "&lt;").replace('"', "&#34;").replace("'", "&#39;"),
    "text of HTML": lambda text: f"<a>{html.escape(text, quote=False)}</a>",
    "YAML": lambda text: "a: '{}'".format(text.replace("'", "''")),
}


@given(
    secret=st.text("aZ9/+?~é", min_size=6, max_size=20),
    before=st.text("x:?é", max_size=4),
    form=st.sampled_from([*ENCODED]),
)
def test_a_secret_is_found_in_what_is_encoded_with_it(secret: str, before: str, form: str) -> None:
    assert "***" == Keeper([Secret(secret)]).name(ENCODED[form](before + secret))


@pytest.mark.parametrize("form", [*ENCODED, *SPELLED])
@pytest.mark.parametrize("given_as", ["a declared variable", "under a variable's name"])
def test_a_secret_that_is_spelled_otherwise_is_in_no_note(form: str, given_as: str) -> None:
    app = plain_app()
    secret = "Zq1<aa/a'a\"a" if form in SPELLED else "Zq1aaaaaaa9"
    GIVEN[given_as](app, secret)
    said = {**ENCODED, **SPELLED}[form](secret)
    app.roles[0].args.append(said)

    assert said not in cast("list[str]", note_of_role(app.roles[0])["args"])
