"""The Helm chart without a cluster: what it renders, what it refuses, and that Kubernetes' schemas accept it."""

from __future__ import annotations

import re
import shlex
import shutil
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from connectors.spec import load_spec
from connectors.spec.settings import CheckpointSettings
from integration_tests.harness.chart import CHART, STORE, VOLUME, Chart, container, driver, only
from integration_tests.services.state import PROJECT
from spark_jobs.cli import command_line
from tests.project.test_eos_commands import commands_in, parse

pytestmark = [pytest.mark.helm, pytest.mark.any_server]

VERSIONS: Final = ("1.29.0", "1.37.0")  # the oldest of Chart.yaml, and the newest with schemas

_LITERAL: Final = "hunter2-of-the-test"

ALL: Final[dict[str, Any]] = {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "pipelines": {
        "orders": {
            "spec": STORE,
            "files": {"steps.py": "def step(frame):\n    return frame\n"},
            "standby": 2,
            "envFrom": [{"secretRef": {"name": "orders"}}],
            "env": [{"name": "REGION", "value": "eu-central-1"}],
            "secretFiles": [{"secret": "orders-tls", "path": "/etc/orders-tls"}],
            "page": {"port": 8081, "metricsPerSplit": True, "tokens": {"secret": "orders-page"}},
            "serviceMonitor": {"enabled": True, "labels": {"release": "monitoring"}},
            "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/orders"}},
            "podSecurityContext": {"fsGroup": 1000680000},
            "podLabels": {"team": "shop"},
            "podAnnotations": {"team": "shop"},
            "nodeSelector": {"pool": "eos"},
            "tolerations": [{"key": "eos", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [],
            "priorityClassName": "high",
            "extraVolumes": [{"name": "krb5", "configMap": {"name": "krb5"}}],
            "extraVolumeMounts": [{"name": "krb5", "mountPath": "/etc/krb5.conf", "subPath": "krb5.conf"}],
            "networkPolicy": {"from": []},
        },
        "clicks": {"spec": VOLUME, "volume": {"storageClassName": "fast"}},
        "visits": {"existingConfigMap": "visits", "location": "volume", "volume": {"existingClaim": "visits"}},
    },
}
"""Every setting of a pipeline, in both shapes."""


PROFILES: Final = """\
pipeline: orders
checkpoint: {location: ./checkpoints/orders}
profiles:
  prod: {checkpoint: {location: "s3://my-bucket/eos/orders", timeout: 30min}}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Chart:
    return Chart(tmp_path)


def one(spec: str = STORE, **settings: Any) -> dict[str, Any]:
    """Values of one pipeline."""
    return {"pipelines": {"orders": {"spec": spec, **settings}}}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_object(chart: Chart, version: str) -> None:
    manifest = chart.rendered(ALL, "--kube-version", version)
    assert chart.problems(manifest, version) == []
    assert manifest.count("\nkind:") == 3 + 2 + 3 * 4 + 1  # drivers, specs, four objects of each, a ServiceMonitor


@pytest.mark.parametrize("name", ["123", "null", "true", "1e3"])
def test_the_name_of_a_pipeline_is_a_text(chart: Chart, name: str) -> None:
    """YAML has other types for these. A NetworkPolicy that selects no pod would protect none."""
    values = {"pipelines": {name: {"spec": STORE}}}
    assert chart.problems(chart.rendered(values, "--kube-version", VERSIONS[0]), VERSIONS[0]) == []
    policy = only(chart.objects(values), "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == name


@pytest.mark.parametrize(
    ("release", "namespace", "name"),
    [("123", "2026-11-30", "456"), ("2026-11-30", "1e3", "0x1f"), ("1e3", "0o17", "no")],
)
def test_each_name_is_a_text(chart: Chart, release: str, namespace: str, name: str) -> None:
    """Kubernetes refuses a number as a name. Go reads a date as a text, and other readers of YAML do not."""
    settings: dict[str, Any] = {
        "serviceAccount": {"name": name},
        "priorityClassName": name,
        "page": {"tokens": {"secret": name}},
        "serviceMonitor": {"enabled": True, "labels": {"release": name}},
        "podLabels": {"team": name},
    }
    pipelines = {
        release: {"spec": STORE},
        "clicks": {"spec": VOLUME, "volume": {"storageClassName": name}},
        "visits": {"existingConfigMap": name, "location": "volume", "volume": {"existingClaim": name}},
    }
    values = {"defaults": settings, "pipelines": pipelines, "imagePullSecrets": [{"name": name}]}
    manifest = chart.rendered(values, "--namespace", namespace, release=release)
    assert chart.problems(manifest) == []
    found = [each for each in YAML(typ="safe").load_all(manifest) if each is not None]
    assert {each["metadata"]["namespace"] for each in found} == {namespace}
    names = {each["metadata"]["name"] for each in found}
    assert names == {release, f"{release}-clicks", f"{release}-visits", name}
    assert only(found, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == name
    assert only(found, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == name
    claims = [
        claim
        for each in found
        if each["kind"] == "StatefulSet"
        for claim in each["spec"].get("volumeClaimTemplates", ())
    ]
    assert [claim["spec"]["storageClassName"] for claim in claims] == [name]
    monitors = [each for each in found if each["kind"] == "ServiceMonitor"]
    assert [each["spec"]["namespaceSelector"]["matchNames"] for each in monitors] == [[namespace]] * 3


def test_helm_has_no_complaint(chart: Chart) -> None:
    done = chart.helm("lint", str(CHART), "--strict", values=ALL)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout


_MUTATIONS: Final = [
    ("driver.yaml", "replicas:", "replica:"),
    ("driver.yaml", "apps/v1", "apps/v2"),
    ("_pod.tpl", "containerPort: {{ $of.page.port | int64 }}", 'containerPort: "page"'),
    ("_pod.tpl", "automountServiceAccountToken", "automountToken"),
    ("_pod.tpl", "startupProbe:", "startProbe:"),
    ("configmap.yaml", "\ndata:", "\ndatas:"),
    ("service.yaml", "name: page, port: {{ $of.page.port | int64 }}", "name: page"),
    ("serviceaccount.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: never"),
    ("poddisruptionbudget.yaml", "maxUnavailable", "maxUnavailables"),
    ("networkpolicy.yaml", "podSelector:", "podsSelector:"),
    ("servicemonitor.yaml", "scrapeTimeout:", "timeout:"),
]


@pytest.mark.parametrize(("file", "old", "new"), _MUTATIONS)
def test_kubernetes_refuses_a_broken_template(chart: Chart, tmp_path: Path, file: str, old: str, new: str) -> None:
    broken = Chart(tmp_path, tmp_path / "chart")
    shutil.copytree(CHART, broken.path)
    template = broken.path / "templates" / file
    text = template.read_text()
    assert old in text
    template.write_text(text.replace(old, new))
    assert broken.problems(broken.rendered(ALL)) != []


def test_three_pipelines_have_three_of_each(chart: Chart) -> None:
    settings = {"page": {"tokens": {"secret": "page"}}, "serviceMonitor": {"enabled": True}}
    found = chart.objects({"defaults": settings, "pipelines": {name: {"spec": STORE} for name in ("a", "b", "c")}})
    kinds = {each["kind"] for each in found}
    assert kinds == {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
    }
    for kind in kinds:
        of_kind = [each for each in found if each["kind"] == kind]
        assert {each["metadata"]["name"] for each in of_kind} == {"shop-a", "shop-b", "shop-c"}, kind
        assert len(of_kind) == 3, kind
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in found if each["kind"] == "Deployment"]
    for kind, *keys in (
        ("Deployment", "selector", "matchLabels"),
        ("Service", "selector"),
        ("PodDisruptionBudget", "selector", "matchLabels"),
        ("NetworkPolicy", "podSelector", "matchLabels"),
        ("ServiceMonitor", "selector", "matchLabels"),
    ):
        specs: list[Any] = [each["spec"] for each in found if each["kind"] == kind]
        assert [reduce(getitem, keys, spec) for spec in specs] == pods, kind


def test_nothing_is_deployed_without_a_pipeline(chart: Chart) -> None:
    assert chart.objects({}) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (one(standby="one"), "/pipelines/orders/standby"),
        (one(standby=-1), "/pipelines/orders/standby"),
        (one(standbys=1), "standbys"),
        (one(location="disk"), "/pipelines/orders/location"),
        (one(page={"port": 70000}), "/pipelines/orders/page/port"),
        (one(page={"token": "a"}), "token"),
        (one(resources={"limit": {}}), "limit"),
        (one(volume={"size": "ten"}), "/pipelines/orders/volume/size"),
        (one(env=[{"value": "a"}]), "/pipelines/orders/env/0"),
        (one(envFrom=[{"secret": {"name": "a"}}]), "/pipelines/orders/envFrom/0"),
        (one(secretFiles=[{"secret": "a", "path": "relative"}]), "/pipelines/orders/secretFiles/0/path"),
        ({"pipelines": {"Orders": {"spec": STORE}}}, "Orders"),
        ({"pipelines": [{"spec": STORE}]}, "/pipelines"),
        ({"defaults": {"suspend": "no"}}, "/defaults/suspend"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"secrets": {"KAFKA": "a"}}, "secrets"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(chart: Chart, values: dict[str, Any], named: str) -> None:
    message = chart.refusal(values)
    assert "don't meet the specifications of the schema" in message
    assert named in message


@pytest.mark.parametrize(
    ("values", "problem", "remedy"),
    [
        (one(VOLUME, standby=1), "pipelines.orders.standby: a standby on another node cannot see a volume", "s3://"),
        (one(standby=1, location="volume"), "location is volume", "Remove pipelines.orders.location"),
        (one("pipeline: orders\n"), "checkpoint.location is not known", "Set pipelines.orders.location"),
        (one('checkpoint: {location: "${env:PLACE}"}\n'), "checkpoint.location is not known", "to store or volume"),
        (one("checkpoint: {location: ./orders}\n"), "./orders would be lost", "a folder below /var/lib/eos"),
        (one("checkpoint: {location: s3a://b/orders}\n"), "s3a://b/orders would be lost", "s3://bucket/prefix"),
        (one("checkpoint: [\n"), "pipelines.orders.spec is not YAML", "line"),
        (one(""), "pipelines.orders has no spec", "--set-file pipelines.orders.spec=orders.yaml"),
        (one(existingConfigMap="orders"), "exclude each other", "Remove one"),
        (one(serviceMonitor={"enabled": True}), "needs the token", "Set pipelines.orders.page.tokens.secret"),
        (one(STORE.replace('orders"}', 'orders", timeout: 10 m}', 1)), "timeout 10 m", "terminationGracePeriodSeconds"),
        (one(PROFILES, terminationGracePeriodSeconds=7), "has profiles or include", "Set pipelines.orders.location"),
        (one(f"include: common.yaml\n{STORE}"), "has profiles or include", "Set pipelines.orders.location"),
        (one(PROFILES, location="store"), "may be in profiles", "Set pipelines.orders.terminationGracePeriodSeconds"),
        (
            one(f"include: common.yaml\n{STORE}", location="store"),
            "an included file",
            "Set pipelines.orders.terminationGracePeriodSeconds",
        ),
        (
            one(files={"eos.yaml": "checkpoint: {timeout: 30min}\n"}),
            "or eos.yaml, which the chart does not read",
            "Set pipelines.orders.terminationGracePeriodSeconds",
        ),
        (
            one(PROFILES, location="volume", terminationGracePeriodSeconds=7, standby=1),
            "a standby on another node cannot see a volume",
            "standby to 0",
        ),
        (
            one(podLabels={"app.kubernetes.io/name": "a"}),
            "sets app.kubernetes.io/name",
            "Remove it from pipelines.orders.podLabels",
        ),
        (
            one(podAnnotations={"checksum/spec": "a"}),
            "sets checksum/spec",
            "Remove it from pipelines.orders.podAnnotations",
        ),
        (
            one(serviceMonitor={"labels": {"helm.sh/chart": "a"}}),
            "sets helm.sh/chart",
            "Remove it from pipelines.orders.serviceMonitor.labels",
        ),
        ({"pipelines": {"o" * 50: {"spec": STORE}}}, "more than 52 characters", "shorter name"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(
    chart: Chart, values: dict[str, Any], problem: str, remedy: str
) -> None:
    message = chart.refusal(values)
    assert problem in message
    assert remedy in message


@pytest.mark.parametrize(
    "shown",
    [
        f'url: "mysql+pymysql://eos:{_LITERAL}@db/shop"',
        f'url: "mysql+pymysql://${{env:NAME}}:{_LITERAL}@db/shop"',
        f"sasl.password: {_LITERAL}",
        f'  - {{name: a, password: "{_LITERAL}"}}',
        f"location_options: {{region: a, secret_access_key: {_LITERAL}}}",
        f"spark.authenticate.secret: {_LITERAL}",
        f"spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: {_LITERAL}}}}}",
        f"spark: {{conf: {{spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net: {_LITERAL}}}}}",
        f"properties: {{ssl.key.pem: {_LITERAL}, basic.auth.user.info: {_LITERAL}}}",
        f"headers: {{Authorization: {_LITERAL}}}",
        f"tls: {{private_key: {_LITERAL}}}",
        f"sasl:\n  password:\n    {_LITERAL}",
        f"sasl: {{password: &name {_LITERAL}}}",
        f'sasl: {{"password":"{_LITERAL}"}}',
        f"sasl:\n  ? password\n  : '*{_LITERAL}'",
        f'url: "mysql+pymysql://db/shop?password={_LITERAL}"',
        f"spark: {{conf: {{spark.driver.extraJavaOptions: -Djavax.net.ssl.keyStorePassword={_LITERAL}}}}}",
        f'url: "mysql+pymysql://eos:quote\'{_LITERAL}@db/shop"',
        f'url: "mysql+pymysql://eos:a/{_LITERAL}@db/shop"',
        f'url: "mysql+pymysql://eos:${{env:P:-{_LITERAL}}}@db/shop"',
        f'sasl.oauthbearer.config: "aws_msk_iam region=a key=AKIA secret={_LITERAL}"',
        f'sasl: {{password: "${{P:-{_LITERAL}}}"}}',
        f'notifications: [{{name: a, url: "${{env:A}}", headers: {{X-Key: {_LITERAL}}}}}]',
        f"profiles: {{prod: {{notifications: [{{name: a, headers: {{X-Key: {_LITERAL}}}}}]}}}}",
    ],
    ids=[
        "url",
        "url-with-name",
        "option",
        "flow",
        "store",
        "spark",
        "hadoop",
        "azure",
        "pem",
        "header",
        "private-key",
        "next-line",
        "anchor",
        "json",
        "question",
        "query",
        "java",
        "url-with-quote",
        "url-with-slash",
        "url-with-default",
        "login",
        "default",
        "notification",
        "notification-of-profile",
    ],
)
def test_a_password_never_reaches_a_configmap(chart: Chart, shown: str) -> None:
    message = chart.refusal(one(f"{STORE}{shown}\n"))
    assert "shows a password or a key" in message
    assert "Write ${env:NAME}" in message
    assert _LITERAL not in message
    message = chart.refusal(one(files={"part.yaml": f"{shown}\n"}))
    assert "part.yaml shows a password" in message


@pytest.mark.parametrize("name", ["part.YAML", "part.Yml", "part.JSON"])
def test_the_case_of_a_file_name_hides_no_password(chart: Chart, name: str) -> None:
    message = chart.refusal(one(files={name: f'{{"password": "{_LITERAL}"}}\n'}))
    assert f"{name} shows a password" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAREHOUSE", f"mysql+pymysql://eos:{_LITERAL}@db/shop"),
        ("DB_PASSWORD", _LITERAL),
        ("LOGIN", f"aws_msk_iam secret={_LITERAL}"),
    ],
)
def test_a_password_never_reaches_a_pod(chart: Chart, name: str, value: str) -> None:
    message = chart.refusal(one(env=[{"name": name, "value": value}]))
    assert f"pipelines.orders.env: {name} shows a password" in message
    assert "valueFrom.secretKeyRef" in message
    assert _LITERAL not in message


def test_a_variable_with_a_reference_or_without_a_secret_is_kept(chart: Chart) -> None:
    env = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "orders", "key": "PASSWORD"}}},
        {"name": "DB_PASSWORD", "value": "$(PASSWORD)"},
        {"name": "WAREHOUSE", "value": "mysql+pymysql://eos:$(PASSWORD)@db:3306/shop"},
        {"name": "REGISTRY", "value": "http://[::1]:8080/@a,http://registry:8081/@b"},
        {"name": "EMPTY_PASSWORD", "value": ""},
    ]
    assert container(driver(chart.objects(one(env=env))))["env"][1:] == env


def test_a_spec_with_references_is_kept_as_it_is_written(chart: Chart, tmp_path: Path) -> None:
    text = STORE.replace("${env:WAREHOUSE}", "mysql+pymysql://eos:${env:PASSWORD}@db/shop")
    text += "# the token: is in the Secret\n"
    text = text.replace("id BIGINT", "id BIGINT, token BIGINT")
    text += 'transforms: [{name: kept, sql: "SELECT id FROM orders WHERE token=id"}]\n'
    text += 'notifications: [{name: a, url: "https://example.org:8080/@a", headers: {X: "Bearer ${env:PASSWORD}"}}]\n'
    text += 'spark: {conf: {spark.hadoop.fs.s3a.secret.key: "${env:PASSWORD}"}}\n'
    found = chart.objects(one(text, files={"steps.py": "password: str\n"}))
    data = only(found, "ConfigMap")["data"]
    assert data == {"orders.yaml": text, "steps.py": "password: str\n"}
    (tmp_path / "orders.yaml").write_text(text)
    assert load_spec(tmp_path / "orders.yaml", {"KAFKA": "k:1", "PASSWORD": "p"}).pipeline == "orders"


def test_secrets_are_named_and_not_held(chart: Chart) -> None:
    """The values have no place for a secret, so no object of the chart has one."""
    found = chart.objects(ALL)
    assert not [each for each in found if each["kind"] == "Secret"]
    workload = next(
        each for each in found if each["metadata"]["name"] == "shop-orders" and each["kind"] == "Deployment"
    )
    found_container = container(workload)
    assert found_container["envFrom"] == [{"secretRef": {"name": "orders"}}]
    variables = {each["name"]: each for each in found_container["env"]}
    for name in ("EOS_UI_TOKEN", "EOS_UI_READ_TOKEN"):
        assert variables[name] == {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": "orders-page", "key": name}},
        }
    mounts = {each["name"]: each for each in found_container["volumeMounts"]}
    assert mounts["secret-0"] == {"name": "secret-0", "mountPath": "/etc/orders-tls", "readOnly": True}
    volumes = {each["name"]: each for each in workload["spec"]["template"]["spec"]["volumes"]}
    assert volumes["secret-0"]["secret"] == {"secretName": "orders-tls", "defaultMode": 0o440}


def test_a_location_in_a_store_needs_no_volume_and_is_updated_through_a_standby(chart: Chart) -> None:
    found = chart.objects(one())
    workload = only(found, "Deployment")
    assert workload["spec"]["replicas"] == 1
    assert workload["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    volumes = workload["spec"]["template"]["spec"]["volumes"]
    assert {kind for each in volumes for kind in each.keys() - {"name"}} == {"configMap", "emptyDir"}
    assert "--standby" in container(workload)["args"], "without it the new driver and the old one fence each other"
    assert driver(chart.objects(one(standby=2)))["spec"]["replicas"] == 3
    assert only(found, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_a_location_on_a_volume_has_one_pod_at_a_time(chart: Chart) -> None:
    """A StatefulSet deletes a pod before it creates the next one, and replaces none of a node that does not answer."""
    workload = only(chart.objects(one(VOLUME)), "StatefulSet")
    assert workload["spec"]["replicas"] == 1
    assert "--standby" not in container(workload)["args"]
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    mounted = {each["name"]: each["mountPath"] for each in container(workload)["volumeMounts"]}
    assert mounted[claim["metadata"]["name"]] == "/var/lib/eos"
    existing = only(chart.objects(one(VOLUME, volume={"existingClaim": "orders"})), "StatefulSet")
    assert "volumeClaimTemplates" not in existing["spec"]
    volumes = {each["name"]: each for each in existing["spec"]["template"]["spec"]["volumes"]}
    assert volumes["home"]["persistentVolumeClaim"] == {"claimName": "orders"}


def test_a_location_in_hdfs_is_a_store(chart: Chart) -> None:
    spec = re.sub(r"s3://[^\s,\"}]+", "hdfs://namenode:8020/eos/orders", STORE)
    assert "hdfs://" in spec
    kinds = {each["kind"] for each in chart.objects(one(spec))}
    assert "Deployment" in kinds
    assert "StatefulSet" not in kinds


@pytest.mark.parametrize("spec", [STORE, VOLUME], ids=["store", "volume"])
def test_a_pod_is_restricted(chart: Chart, spec: str) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, the table "Restricted"."""
    found = chart.objects(one(spec))
    pod = driver(found)["spec"]["template"]["spec"]
    of_driver = container(driver(found))
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    assert {kind for volume in pod["volumes"] for kind in volume.keys() - {"name"}} <= {"configMap", "emptyDir"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_driver["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPort" not in port for port in of_driver["ports"])
    assert pod["automountServiceAccountToken"] is only(found, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "a Service named eos-ui would set EOS_UI_PORT"
    assert {"memory", "ephemeral-storage"} <= of_driver["resources"]["limits"].keys()
    written = {mount["mountPath"] for mount in of_driver["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/tmp", "/var/lib/eos"}  # what is written to on a root that is read-only
    image = (PROJECT / "docker" / "Dockerfile").read_text()
    assert f"USER {pod['securityContext']['fsGroup']}\n" in image
    assert "VOLUME /var/lib/eos\n" in image


def test_the_page_alone_is_reached(chart: Chart) -> None:
    found = chart.objects(one())
    policy = only(found, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == ["page"]
    closed = only(chart.objects(one(networkPolicy={"from": []})), "NetworkPolicy")["spec"]
    assert "ingress" not in closed
    off = chart.objects(one(networkPolicy={"enabled": False}, podDisruptionBudget={"enabled": False}))
    assert {each["kind"] for each in off} == {"ConfigMap", "Deployment", "Service", "ServiceAccount"}


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("", 600 + 60), (", timeout: 20 min", 1260), (", timeout: 1.5h", 5460), (", timeout: 500ms", 61)],
)
def test_a_pod_has_time_to_finish_its_checkpoint(chart: Chart, timeout: str, seconds: int) -> None:
    assert CheckpointSettings.model_fields["timeout_s"].default == 600
    spec = STORE.replace('orders"}', f'orders"{timeout}}}', 1)
    assert driver(chart.objects(one(spec)))["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == seconds
    own = driver(chart.objects(one(spec, terminationGracePeriodSeconds=7)))
    assert own["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 7


def test_a_spec_with_profiles_has_the_location_and_the_time_of_the_values(chart: Chart) -> None:
    """The chosen profile is a variable, which may be in a Secret."""
    env = [{"name": "EOS_PROFILE", "value": "prod"}]
    of_store = driver(chart.objects(one(PROFILES, env=env, location="store", terminationGracePeriodSeconds=1860)))
    assert of_store["kind"] == "Deployment"
    assert of_store["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 1860
    swapped = PROFILES.replace("./checkpoints/orders", "s3://b/orders").replace("s3://my-bucket", "/var/lib")
    of_volume = driver(chart.objects(one(swapped, env=env, location="volume", terminationGracePeriodSeconds=1860)))
    assert of_volume["kind"] == "StatefulSet"
    assert "--standby" not in container(of_volume)["args"]
    (claim,) = of_volume["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "home"


def test_the_time_of_a_spec_takes_precedence_over_the_defaults_of_its_folder(chart: Chart) -> None:
    spec = STORE.replace('orders"}', 'orders", timeout: 20min}', 1)
    workload = driver(chart.objects(one(spec, files={"eos.yaml": "checkpoint: {timeout: 30min}\n"})))
    assert workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 1260


def test_a_changed_spec_restarts_the_pods_and_a_changed_label_of_the_chart_does_not(chart: Chart) -> None:
    def pod(spec: str, **settings: Any) -> Any:
        return driver(chart.objects(one(spec, **settings)))["spec"]["template"]

    assert pod(STORE) == pod(STORE, podDisruptionBudget={"enabled": False})
    assert pod(STORE) != pod(f"{STORE}# changed\n")
    assert pod(STORE, files={"steps.py": "a"}) != pod(STORE, files={"steps.py": "b"})
    assert not any(name.startswith("helm.sh/") for name in pod(STORE)["metadata"]["labels"])


def test_a_pipeline_overrides_the_defaults(chart: Chart) -> None:
    defaults = {"standby": 2, "suspend": True, "networkPolicy": {"enabled": True}, "resources": {"limits": {"cpu": 8}}}
    own = {"spec": STORE, "standby": 0, "suspend": False, "networkPolicy": {"enabled": False}}
    found = chart.objects({"defaults": defaults, "pipelines": {"orders": own, "clicks": {"spec": STORE}}})
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in found if each["kind"] == "Deployment"}
    assert replicas == {"shop-orders": 1, "shop-clicks": 0}
    assert [each["metadata"]["name"] for each in found if each["kind"] == "NetworkPolicy"] == ["shop-clicks"]
    limits = container(next(each for each in found if each["kind"] == "Deployment"))["resources"]["limits"]
    assert (limits["cpu"], limits["memory"]) == (8, "6Gi")
    assert only(chart.objects(one(), release="orders"), "Deployment")["metadata"]["name"] == "orders"


def test_the_page_types_commands_that_helm_understands(chart: Chart, tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "how-to" / "deploying.md").read_text()
    (line,) = re.findall(r"^helm (install .*)$", page, re.MULTILINE)
    (tmp_path / "orders.yaml").write_text(STORE)
    words = shlex.split(line.replace("install", "template", 1).replace("orders.yaml", str(tmp_path / "orders.yaml")))
    done = chart.helm(*words)
    assert done.returncode == 0, done.stderr
    of_driver = container(driver([each for each in YAML(typ="safe").load_all(done.stdout) if each is not None]))
    assert of_driver["image"].startswith("registry.example.org/eos:")
    assert of_driver["envFrom"] == [{"secretRef": {"name": "orders"}}]
    (more,) = re.findall(r"^helm upgrade shop \S+ --reset-then-reuse-values (.*)$", page, re.MULTILINE)
    changed = chart.helm(*words, *shlex.split(more))
    assert changed.returncode == 0, changed.stderr
    objects = [each for each in YAML(typ="safe").load_all(changed.stdout) if each is not None]
    annotations = only(objects, "ServiceAccount")["metadata"]["annotations"]
    assert annotations == {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/orders"}
    assert driver(objects)["spec"]["replicas"] == 2
    (created,) = re.findall(r"^kubectl create secret generic orders (.*)$", page, re.MULTILINE)
    names = set(re.findall(r"--from-(?:file|literal)=(\w+)", created))
    assert names == {"KAFKA", "WAREHOUSE", "EOS_UI_TOKEN", "EOS_UI_READ_TOKEN"}


def test_large_numbers_stay_numbers(chart: Chart) -> None:
    assert "fsGroup: 1000680000\n" in chart.rendered(ALL)


def test_each_command_line_is_one_of_eos(chart: Chart) -> None:
    run: Any = command_line()
    run = run.get_command(None, "run")
    lines = [container(each)["args"] for each in chart.objects(ALL) if each["kind"] in {"Deployment", "StatefulSet"}]
    parsed = {line[1]: run.make_context("run", line[1:]).params for line in lines if line[0] == "run"}
    assert len(parsed) == 3
    of_store, of_volume = parsed["/etc/eos/orders.yaml"], parsed["/etc/eos/clicks.yaml"]
    assert [str(path) for path in of_store["specs"]] == ["/etc/eos/orders.yaml"]
    assert (of_store["standby"], of_volume["standby"]) == (True, False)
    assert (of_store["ui"], of_store["ui_host"], of_store["ui_port"]) == (True, "0.0.0.0", 8081)
    assert (of_store["metrics_per_split"], of_volume["metrics_per_split"]) == (True, False)
    assert of_store["log_format"].value == "json"


def test_the_notes_name_commands_that_exist(chart: Chart) -> None:
    done = chart.helm("install", "shop", str(CHART), "--dry-run=client", values=ALL)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("\nNOTES:\n")[2]
    assert "orders: 1 driver and 2 standbys, location in an object store" in notes
    assert "clicks: 1 driver, location on a volume" in notes
    typed = re.findall(r"^ +kubectl exec .* -- (eos .*)$", notes, re.MULTILINE)
    assert len(typed) == 6
    for command in [*typed, *commands_in(notes)]:
        parse(command)
    workloads = {
        word for line in notes.splitlines() for word in shlex.split(line) if re.match(r"(deploy|stateful)", word)
    }
    assert workloads == {"deployment/shop-orders", "statefulset/shop-clicks", "statefulset/shop-visits"}
