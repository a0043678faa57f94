"""The files in ``deploy`` are valid, agree with each other, and use only metrics that exist."""

import json
import re
import shutil
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import click
import pytest
import yaml

import recrawl
from recrawl.cli import main
from recrawl.cluster.worker import LEAVE_SECONDS_MAX
from recrawl.corpus import CorpusConfig
from recrawl.service import ServiceLimits
from recrawl.service.operations.metric_list import METRICS
from scripts import grafana_dashboard
from tests.docs.tutorial_shell import Shell, steps, words
from tests.unit.service.running_server import RunningServer

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs/how-to/watch-in-grafana.md"
PORT = "8377"

SERIES = {series: row for row in METRICS.values() for series in row.series}
# Metrics of Prometheus itself, and of its library for Python.
OTHER_SERIES = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
OTHER_LABELS = {"instance", "job", "le"}
WORDS = {
    *("sum", "by", "rate", "increase", "and", "ignoring", "offset", "abs", "sqrt", "Inf"),
    *("max", "avg_over_time", "histogram_quantile", "predict_linear", "on", "label_values"),
}


GROUPED = r"(?:by|on|ignoring) \(([^)]*)\)"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana/recrawl.json").read_text("utf-8"))
    return found


def dashboard_queries() -> list[str]:
    return [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())
    ]


def alert_rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def alert_queries() -> list[str]:
    return [rule["expr"] for rule in alert_rules()]


def problems_of(query: str) -> list[str]:
    """Return what a query uses that does not exist: series, and labels that a series has not."""
    found = []
    bare = re.sub(r'"[^"]*"', '""', query)
    for left, right in ("()", "[]", "{}"):
        if bare.count(left) != bare.count(right):
            found.append(f"{left}{right} do not match")
    labels_of_query = set()
    ungrouped = re.sub(GROUPED, "", bare)
    for name, selector in re.findall(r"\b([a-z]\w+_\w+|up)\b\s*(\{[^}]*\})?", ungrouped):
        if name in WORDS:
            continue
        if name not in SERIES and name not in OTHER_SERIES:
            found.append(f"there is no series {name}")
            continue
        labels = set(SERIES[name].labels) if name in SERIES else set()
        labels_of_query |= labels
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        found += [f"{name} has no label {label}" for label in used - labels - OTHER_LABELS]
    used = {label for names in re.findall(GROUPED, bare) for label in re.split(r", ?", names)}
    missing = used - labels_of_query - OTHER_LABELS
    return found + [f"no series of the query has the label {label}" for label in missing]


@pytest.mark.parametrize("query", [*dashboard_queries(), *alert_queries()])
def test_a_query_uses_series_and_labels_that_exist(query: str) -> None:
    assert problems_of(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "rate(recrawl_order_total[5m])",
        'recrawl_price{host="x"}',
        "sum by (url) (recrawl_price)",
        "sum by (corpus) (rate(recrawl_orders_total[5m])",
        "recrawl_orders > 1",
        "sum(recrawl_nothing)",
    ],
)
def test_a_wrong_query_is_noticed(query: str) -> None:
    assert problems_of(query)


def test_the_dashboard_shows_every_metric() -> None:
    text = " ".join(dashboard_queries())
    shown = {row.name for row in METRICS.values() if any(one in text for one in row.series)}
    # The same as the increase of the two counters, but over all time.
    assert set(METRICS) - shown == {"recrawl_freshness_audited_ratio"}


def test_the_dashboard_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert grafana_dashboard.main(["--check"]) == 0, capsys.readouterr().out


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_every_alert_says_what_to_do() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    assert len(set(names)) == len(names)
    for rule in alert_rules():
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert re.fullmatch(r"\d+[mh]", rule["for"])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
    shell.environment["RECRAWL_KERNELS"] = "interpreted"
    yield shell
    shell.close()


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_the_guide_runs_as_written(shell: Shell) -> None:
    for file in (DEPLOY / "prometheus").iterdir():
        shutil.copy(file, shell.folder)
    n_run = 0
    for step in steps(GUIDE.read_text("utf-8")):
        command = step.command.replace(PORT, shell.port)
        program = command.split()[0]
        if program == "prometheus" or shutil.which(program, path=shell.environment["PATH"]) is None:
            assert program in ("prometheus", "promtool", "curl"), command
            continue  # Prometheus itself runs in the next test, where it is installed
        if command.startswith("recrawl serve"):
            assert "/v1/corpora/news" in shell.serve(step.command)
            continue
        code, printed, remarks = shell.run(command)
        assert code == 0, (command, printed, remarks)
        if step.shown:
            assert words(step.shown) == words(printed)
        n_run += 1
    assert n_run >= 5


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.mark.slow
def test_prometheus_scrapes_the_server_and_takes_every_query(tmp_path: Path) -> None:
    assert shutil.which("prometheus"), "install Debian's package prometheus; CI does so by itself"
    with RunningServer({"news": recrawl.open(tmp_path / "corpus")}) as server:
        folder = tmp_path / "prometheus"
        shutil.copytree(DEPLOY / "prometheus", folder)
        config = (folder / "prometheus.yml").read_text("utf-8")
        config = config.replace(PORT, str(server.port)).replace("15s", "1s")
        (folder / "prometheus.yml").write_text(config)
        address = f"127.0.0.1:{free_port()}"
        command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address={address}"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:

            def ask(query: str) -> dict[str, Any]:
                query = query.replace("$__rate_interval", "1m").replace("$corpus", ".*")
                url = f"http://{address}/api/v1/query?query={quote(query.replace('$job', '.*'))}"
                with urlopen(url, timeout=10) as answer:
                    found: dict[str, Any] = json.load(answer)
                return found

            wait_until(lambda: bool(ask("recrawl_pages")["data"]["result"]))
            for query in [*dashboard_queries(), *alert_queries()]:
                assert ask(query)["status"] == "success", query
            with urlopen(f"http://{address}/api/v1/rules", timeout=10) as answer:
                groups = json.load(answer)["data"]["groups"]
            assert {rule["name"] for group in groups for rule in group["rules"]} == {
                rule["alert"] for rule in alert_rules()
            }
            assert ask("up")["data"]["result"][0]["value"][1] == "1"
        finally:
            process.terminate()
            process.wait(30)


def wait_until(is_done: Callable[[], bool], seconds: float = 60) -> None:
    ends_at = time.monotonic() + seconds
    while True:
        try:
            if is_done():
                return
        except OSError:
            pass
        assert time.monotonic() < ends_at, "it takes too long"
        time.sleep(0.2)


# ------------------------------------------------------------------------- starting a server


def test_every_yaml_file_can_be_read() -> None:
    files = [*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")]
    assert len(files) >= 6
    for file in files:
        assert all(list(yaml.safe_load_all(file.read_text("utf-8")))), file


def test_the_readme_names_every_part() -> None:
    text = (DEPLOY / "README.md").read_text("utf-8")
    for part in DEPLOY.iterdir():
        name = f"`{part.name}/" if part.is_dir() else f"`{part.name}`"
        assert name in text or part.name == "README.md", name


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_a_container_starts_with_a_corpus_and_keys_and_stops_cleanly(tmp_path: Path) -> None:
    shell = Shell(tmp_path, PORT)
    corpus = tmp_path / "news"
    shell.environment |= {
        "RECRAWL_KERNELS": "interpreted",
        "RECRAWL_CORPUS": str(corpus),
        "RECRAWL_CONFIG": str(tmp_path / "given.toml"),
        "RECRAWL_PORT": "0",
    }
    (tmp_path / "given.toml").write_text('[budget]\nrate = "60/h"\n')
    for _ in range(2):  # the second time there is a corpus with keys already
        shell.serve(f"sh {DEPLOY}/start.sh")
        keys = {}
        for scope in ("admin", "read"):
            file = tmp_path / f"news.{scope}.key"
            assert file.stat().st_mode & 0o777 == 0o600
            keys[scope] = file.read_text().strip()
        base = f"http://127.0.0.1:{shell.port}"
        headers = {"Authorization": f"Bearer {keys['read']}"}
        with urlopen(Request(f"{base}/metrics", headers=headers), timeout=30) as answer:
            assert b'recrawl_budget_per_second{corpus="news"' in answer.read()
        with urlopen(f"{base}/readyz", timeout=30) as answer:
            assert answer.status == 200
        server = shell.processes[-1]
        server.terminate()
        assert server.wait(60) == 0
    shell.close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd/recrawl.service").read_text("utf-8")
    assert unit.count("/opt/recrawl/bin/recrawl ") == 2
    (tmp_path / "recrawl.service").write_text(unit.replace("/opt/recrawl/bin/recrawl", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "recrawl.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    about_it = [line for line in done.stderr.splitlines() if "recrawl" in line]
    assert about_it == [], done.stderr


def test_the_unit_uses_commands_and_options_that_exist() -> None:
    unit = (DEPLOY / "systemd/recrawl.service").read_text("utf-8")
    for name, options in re.findall(r"/bin/recrawl (\w+) (.*)", unit):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        known = {option for one in command.params for option in one.opts}
        assert set(re.findall(r"(?<= )--?[\w-]+", f" {options}")) <= known


def test_containers_agree_with_the_image() -> None:
    image = (DEPLOY / "Containerfile").read_text("utf-8")
    (volumes,) = re.findall(r"^VOLUME (.*)$", image, re.M)
    (port,) = re.findall(r"^EXPOSE (\d+)$", image, re.M)
    (user,) = re.findall(r"^USER (\d+)$", image, re.M)
    for copied in re.findall(r"^COPY (deploy/\S+)", image, re.M):
        assert (ROOT / copied).exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extras,) = re.findall(r'"/source\[(.*?)\]"', image)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])

    compose = yaml.safe_load((DEPLOY / "compose/compose.yml").read_text("utf-8"))
    own = compose["services"]["recrawl"]
    places = {one.split(":")[1] for one in own["volumes"]}
    assert set(json.loads(volumes)) <= places
    assert own["environment"]["RECRAWL_CONFIG"] in places
    assert own["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert compose["services"]["prometheus"]["user"] == user
    for service in compose["services"].values():
        for one in service.get("volumes", ()):
            source = one.split(":")[0]
            is_file = source.startswith(".")
            assert (
                (DEPLOY / "compose" / source).exists() if is_file else source in compose["volumes"]
            )

    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/recrawl.yaml").read_text("utf-8")))
    service, stateful, _ = documents
    assert service["spec"]["ports"][0]["port"] == int(port)
    pod = stateful["spec"]["template"]["spec"]
    assert stateful["spec"]["replicas"] == 1
    assert pod["securityContext"]["runAsUser"] == int(user)
    (container,) = pod["containers"]
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert set(json.loads(volumes)) <= mounted
    assert pod["terminationGracePeriodSeconds"] > ServiceLimits().drain_seconds_max


def test_the_workers_on_kubernetes_use_options_paths_and_files_that_exist(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes/cluster.yaml").read_text("utf-8")
    assert "not applied to Kubernetes" in text
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}
    stateful = found["StatefulSet", "recrawl-cluster"]["spec"]
    pod = stateful["template"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    image = (DEPLOY / "Containerfile").read_text("utf-8")
    (port,) = re.findall(r"^EXPOSE (\d+)$", image, re.M)
    (user,) = re.findall(r"^USER (\d+)$", image, re.M)
    assert pod["securityContext"]["runAsUser"] == int(user)
    grace = pod["terminationGracePeriodSeconds"]
    assert grace > ServiceLimits().drain_seconds_max + LEAVE_SECONDS_MAX + 30

    # Every Service, the disruption budget and the StatefulSet are about the same pods.
    budget = found["PodDisruptionBudget", "recrawl-cluster"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == stateful["selector"] == {"matchLabels": labels}
    among_workers = found["Service", stateful["serviceName"]]["spec"]
    assert among_workers["clusterIP"] == "None"
    assert among_workers["publishNotReadyAddresses"] is True
    for service in (among_workers, found["Service", "recrawl-cluster"]["spec"]):
        assert service["selector"] == labels
        assert service["ports"][0]["port"] == int(port)

    with RunningServer({"news": recrawl.open(tmp_path / "corpus")}) as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
                assert answer.status == 200
            assert container[probe]["httpGet"]["port"] == container["ports"][0]["name"]

    # What is mounted exists, and the script uses what is mounted.
    script = container["command"][-1]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    claims = {one["metadata"]["name"] for one in stateful["volumeClaimTemplates"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert mounts.keys() == claims | volumes.keys()
    assert volumes["keys"]["secret"]["secretName"] == "recrawl-cluster-keys"
    assert ("ConfigMap", volumes["config"]["configMap"]["name"]) in found
    for path in re.findall(r"(?<= )/\S+", script):
        assert f"/{path.split('/')[1]}" in mounts.values(), path
    (options,) = re.findall(r"exec recrawl worker (.*)", script.replace("\\\n", " "), re.S)
    command = main.get_command(click.Context(main), "worker")
    assert command is not None
    known = {option for one in command.params for option in one.opts}
    assert set(re.findall(r"(?<= )--?[A-Za-z][\w-]*", f" {options}")) <= known
    names = {one["name"] for one in container["env"]}
    assert set(re.findall(r"\$(\w+)", script)) <= names

    given = found["ConfigMap", "recrawl-cluster"]["data"]["recrawl.toml"]
    config = CorpusConfig.from_dict(tomllib.loads(given))
    assert (config.ledger.kind, config.ledger.replication) == ("kafka", 3)
    assert config.snapshots.shared is not None


def test_the_guide_of_the_cluster_shows_how_to_make_the_secret() -> None:
    guide = (ROOT / "docs/how-to/run-a-cluster.md").read_text("utf-8")
    assert "**It was not run**" in guide
    assert "kubectl create secret generic recrawl-cluster-keys" in guide
    for file in ("cluster.keys", "api-keys.json"):
        assert f"--from-file={file}" in guide


def test_the_corpus_of_the_compose_file_has_a_valid_configuration() -> None:
    given = tomllib.loads((DEPLOY / "compose/recrawl.toml").read_text("utf-8"))
    config = CorpusConfig.from_dict(given)
    assert (config.ledger.kind, config.ledger.replication) == ("kafka", 1)
