"""docker-compose.yml and its companions: what each process gets, and above all what it does not get."""

import re

import pytest
import yaml

from bot.settings import Settings as BotSettings
from tests.deploy.files import COMPOSE_FILES, DEPLOY, IMAGES, ROOT, instructions, interpolated, read_yaml, services
from worker.settings import Settings as WorkerSettings

SECRET = re.compile(r"TOKEN|SECRET|API_KEY|DATABASE|POSTGRES|MODELS")


def names_of(settings: type) -> set[str]:
    fields = settings.model_fields.items()
    return {str(field.validation_alias or f"TRAINYARD_{name.upper()}") for name, field in fields}


@pytest.mark.parametrize("path", COMPOSE_FILES, ids=lambda path: path.name)
def test_every_file_parses_and_knows_only_services_that_exist(path):
    assert set(read_yaml(path)["services"]) <= set(services())


def test_every_service_has_an_image_or_a_dockerfile_and_the_dockerfiles_are_there():
    for name, service in services().items():
        assert service["image"], name
        assert service["image"] not in IMAGES or (ROOT / service["build"]["dockerfile"]).is_file()


def test_every_lasting_service_restarts_stops_in_time_and_has_a_health_check():
    for name, service in services().items():
        if name == "launch-key":  # ends at once
            continue
        checked = "healthcheck" in service or "HEALTHCHECK" in dict(instructions(IMAGES[service["image"]]))
        assert checked, name
        assert service["restart"] == "unless-stopped"
        assert service["stop_grace_period"]


def test_whoever_waits_for_health_waits_for_somebody_who_has_it():
    for service in services().values():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] in {"service_healthy", "service_completed_successfully"}
            assert how["condition"] != "service_healthy" or "healthcheck" in services()[other]


def test_the_environment_has_real_settings_only():
    bot, worker = services()["bot"]["environment"], services()["worker"]["environment"]

    assert set(bot) <= names_of(BotSettings)
    assert set(worker) <= names_of(WorkerSettings)
    assert bot["TRAINYARD_BLOBS"] == worker["TRAINYARD_BLOBS"] == "redis"
    assert bot["TRAINYARD_REDIS_URL"] == worker["TRAINYARD_REDIS_URL"]
    assert bot["TRAINYARD_DATABASE_URL"].startswith("postgresql+psycopg://")


def test_the_worker_gets_neither_tokens_nor_keys_nor_the_database():
    for worker in (services()["worker"], read_yaml(DEPLOY / "worker.yml")["services"]["worker"]):
        text = yaml.safe_dump(worker["environment"])

        assert "env_file" not in worker
        assert not SECRET.search(text)
        assert "postgres" not in text


def test_the_worker_cannot_reach_the_database():
    assert not set(services()["worker"]["networks"]) & set(services()["postgres"]["networks"])


def test_the_worker_reads_the_public_key_and_nothing_else_of_the_bot():
    worker, maker = services()["worker"], services()["launch-key"]

    assert [mount for mount in worker["volumes"] if not mount.startswith("worker-home:")] == [
        "launch-public:/run/trainyard:ro"
    ]
    assert maker["command"][-1] == worker["environment"]["TRAINYARD_PUBLIC_KEY"]
    assert "launch-public:/run/trainyard" in maker["volumes"]


def test_nothing_is_published_and_no_password_is_written_down():
    for service in services().values():
        assert "ports" not in service
    text = (ROOT / "docker-compose.yml").read_text()
    assert re.findall(r"redis://:([^@]+)@", text) == ["${REDIS_PASSWORD:?put REDIS_PASSWORD into .env}"] * 2
    assert interpolated(ROOT / "docker-compose.yml") == {"REDIS_PASSWORD", "POSTGRES_PASSWORD"}


def test_every_named_volume_is_declared_and_data_lies_in_one():
    for path in COMPOSE_FILES:
        found = read_yaml(path)
        mounts = [mount for service in found["services"].values() for mount in service.get("volumes", ())]
        named = {mount.split(":")[0] for mount in mounts if not mount.startswith(("/", "."))}
        assert named <= set(found.get("volumes", {}))
    assert "redis-data:/data" in services()["redis"]["volumes"]
    assert "postgres-data:/var/lib/postgresql/data" in services()["postgres"]["volumes"]


def test_every_mounted_file_is_there():
    for path in COMPOSE_FILES:
        for service in read_yaml(path)["services"].values():
            for mount in service.get("volumes", ()):
                source = mount.split(":")[0]
                assert not source.startswith(".") or (path.parent / source).exists()


def test_gpus_are_asked_for_in_the_override_only():
    assert "deploy" not in services()["worker"]
    devices = read_yaml(DEPLOY / "gpu.yml")["services"]["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
