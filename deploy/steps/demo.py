"""`demo`: all of Stoa on this machine, with demo data, until Ctrl-C."""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import signal
import stat
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steps.children import Stopped, Supervisor
from steps.files import choose_port, hash_of, read_json, write_private
from steps.packages import PYTHON, REQUIREMENTS, VENV, prepare_venv
from steps.terminal import ROOT, Failed, run, say, step

PROJECTS = ("commerce", "inference", "shared")

# One start of Python for all of a project's preparations.
PREPARE = """
import sys, django
from django.core.management import call_command
django.setup()
for command in sys.argv[1:]:
    call_command(*command.split())
"""


class Demo:
    """All of Stoa on this machine, with demo data."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
        self.var = self.home / "var"
        self.info: Path | None = arguments.info
        self.ports = arguments.commerce_port, arguments.inference_port
        self.notes = self.var / "demo.json"
        self.users: list[dict[str, Any]] = []
        self.began = time.monotonic()

    def run(self) -> None:
        self.var.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.info:
            self.info.unlink(missing_ok=True)
        with self.alone():
            logs = self.var / "log"
            logs.mkdir(exist_ok=True)
            supervisor = Supervisor(logs)
            try:
                self.bring_up(supervisor)
                while True:
                    supervisor.look()
                    time.sleep(0.2)
            except Stopped:
                say("\nStopping.")
            finally:
                supervisor.end()
        say("Stopped; nothing is left running.")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One demo for one folder of data; the kernel ends this claim with this process."""
        with (self.var / "demo.lock").open("a+") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Failed(
                    f"A demo already runs with the data in {self.var}. End it, or choose other data with STOA_HOME=..."
                ) from error
            yield

    def bring_up(self, supervisor: Supervisor) -> None:
        commerce, inference = self.ports
        commerce_port = choose_port("commerce", commerce, 8000, promised=inference)
        inference_port = choose_port("inference", inference, 8001, promised=commerce_port)
        self.commerce_url = f"http://127.0.0.1:{commerce_port}"
        self.inference_url = f"http://127.0.0.1:{inference_port}"
        self.env = self.environment()
        self.env.setdefault("STOA_WEBHOOK_ALLOW", f"127.0.0.1:{commerce_port}")
        self.start_model_host(supervisor)  # first: while the data is prepared, it imports torch
        self.prepare_data()
        self.start_redis(supervisor)
        self.start_inference(supervisor, inference_port)
        self.start_commerce(supervisor, commerce_port)
        with step("Loading the built-in models"):
            supervisor.wait_until(self.models_are_loaded, limit_s=300, what="Loading the models")
        self.tell()

    def environment(self) -> dict[str, str]:
        run_dir = self.var / "run"
        if len(str(run_dir)) > 70:  # sockets need short paths
            mark = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
            run_dir = Path(tempfile.gettempdir()) / f"stoa-{os.getuid()}-{mark}"
        run_dir.mkdir(mode=0o700, exist_ok=True)
        found = run_dir.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise Failed(f"{run_dir} is a link or somebody else's. Remove it, or choose a shorter path for STOA_HOME.")
        run_dir.chmod(0o700)
        kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        compiled = kept.get("STOA_COMPILED_DIR", str(self.var / "compiled"))
        return kept | {
            "STOA_HOME": str(self.home),
            "STOA_RUN_DIR": str(run_dir),
            "STOA_COMPILED_DIR": compiled,
        }

    def prepare_data(self) -> None:
        """Database, pages' files and demo data: whatever of it is missing."""
        ours = [file for project in PROJECTS for file in sorted((ROOT / project).glob("**/static/**/*.*"))]
        static_stamp = hash_of([REQUIREMENTS / "constraints.txt", *ours])
        collect = [] if self.read_notes().get("static") == static_stamp else ["collectstatic --noinput --clear -v0"]
        with step("Preparing the shop's database and demo data"):
            output = self.manage("commerce", ["migrate --noinput -v0", *collect, "seed --small --json"])
            self.users = json.loads(output.splitlines()[-1])["users"]
        with step("Preparing the model server's database"):
            self.manage("inference", ["migrate --noinput -v0", *collect])
        self.write_notes(static=static_stamp)

    def manage(self, project: str, commands: Sequence[str]) -> str:
        env = self.env | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.base", "STOA_LOG_LEVEL": "WARNING"}
        return run([PYTHON, "-c", PREPARE, *commands], env=env, what=f"Preparing {project}")

    def read_notes(self) -> dict[str, Any]:
        return read_json(self.notes)

    def write_notes(self, **notes: Any) -> None:
        write_private(self.notes, self.read_notes() | notes)

    def start_redis(self, supervisor: Supervisor) -> None:
        if os.environ.get("REDIS_URL"):
            return
        folder = Path(self.env["STOA_RUN_DIR"]) / "redis"
        socket = folder / "redis.sock"
        socket.unlink(missing_ok=True)  # of one that was killed
        with step("Starting Valkey or Redis"):
            child = supervisor.add(
                "valkey", [PYTHON, "-m", "shared.serving.processes.local_redis", folder], self.env, signal.SIGTERM
            )
            while child.is_running() and not socket.exists():
                time.sleep(0.02)
        if child.is_running():
            self.env["REDIS_URL"] = f"unix://{socket}?db=0"
        else:
            supervisor.forget(child)
            say(f"  Going on without: limits are counted in each process. {child.last_lines()}")

    def start_model_host(self, supervisor: Supervisor) -> None:
        host = [PYTHON, "manage_inference.py", "host", "--die-with-parent"]
        supervisor.add("model-host", host, self.env, signal.SIGTERM)

    def start_inference(self, supervisor: Supervisor, port: int) -> None:
        with step("Starting the model server"):
            serve = [PYTHON, "manage_inference.py", "serve", "--port", str(port), "--drain", "10"]
            supervisor.add("inference", serve, self.env, signal.SIGKILL)
            if self.env.get("REDIS_URL"):
                worker = [PYTHON, "manage_inference.py", "worker"]
                supervisor.add("inference-worker", worker, self.env, signal.SIGTERM)
            supervisor.wait_until(lambda: answers(f"{self.inference_url}/readyz"), limit_s=120, what="Starting")
        admin = next(user for user in self.users if user["role"] == "SUPER_ADMIN")
        self.api_key = self.key_for(admin["id"], "demo")
        self.shop_key = self.key_for(admin["id"], "commerce", "--permission", "run_inference")

    def key_for(self, user_id: int, name: str, *options: str) -> str:
        """An API key of this name that works: the one of the last start, or a new one."""
        kept = self.read_notes().get("keys", {})
        if name not in kept or not answers(f"{self.inference_url}/models", kept[name], also=403):
            create = [PYTHON, "manage_inference.py", "keys", "create", str(user_id), name, "--json", *options]
            output = run(create, env=self.env | {"STOA_LOG_LEVEL": "WARNING"}, what="Making an API key")
            kept[name] = json.loads(output.splitlines()[-1])["key"]
            self.write_notes(keys=kept)
        return kept[name]

    def models_are_loaded(self) -> bool:
        told = fetch(f"{self.inference_url}/models", self.api_key)[1].get("models", [])
        wanted = os.environ.get("STOA_LOAD", "stoa-describer,stoa-encoder").split(",")
        for model in told:
            if model["id"] in wanted and model["error"]:
                raise Failed(f"The model {model['id']} cannot be loaded: {model['error']}")
        return {model["id"] for model in told if model["loaded"]} >= set(filter(None, wanted))

    def start_commerce(self, supervisor: Supervisor, port: int) -> None:
        env = {
            "STOA_DESCRIPTIONS_BASE_URL": f"{self.inference_url}/v1",
            "STOA_DESCRIPTIONS_API_KEY": self.shop_key,
            "STOA_DESCRIPTIONS_WEBHOOK_SECRET": self.webhook_secret(),
        }
        with step("Starting the shop"):
            serve = [PYTHON, "manage_commerce.py", "serve", "--port", str(port), "--drain", "10"]
            supervisor.add("commerce", serve, env | self.env, signal.SIGKILL)
            if self.env.get("REDIS_URL"):
                worker = [PYTHON, "-m", "celery", "-A", "commerce.config.celery", "worker", "--concurrency", "1"]
                supervisor.add("commerce-worker", worker, env | self.env, signal.SIGTERM)
            supervisor.wait_until(lambda: answers(f"{self.commerce_url}/readyz"), limit_s=120, what="Starting")

    def webhook_secret(self) -> str:
        """What the model server signs its word to the shop with: that of the last start, or of a new webhook. Empty
        where there is none to be had: then the shop asks."""
        url = f"{self.commerce_url}/api/descriptions/webhook"
        kept: dict[str, str] = self.read_notes().get("webhooks", {})
        if url not in kept:
            wanted = {"url": url, "events": ["batch.complete"]}
            secret = fetch(f"{self.inference_url}/webhooks", self.api_key, wanted)[1].get("secret", "")
            kept |= {url: secret} if secret else {}
            self.write_notes(webhooks=kept)
        return kept.get(url, "")

    def tell(self) -> None:
        say(DEMO_TEXT.format(**self.words(), seconds=time.monotonic() - self.began))
        if self.info:
            users = [{name: user[name] for name in ("email", "password", "role")} for user in self.users]
            told = {"commerce_url": self.commerce_url, "inference_url": self.inference_url, "api_key": self.api_key}
            write_private(self.info, told | {"pid": os.getpid(), "users": users})

    def words(self) -> dict[str, str]:
        owner = next(user for user in self.users if user["role"] == "STORE_OWNER")
        home = f"STOA_HOME={shlex.quote(str(self.home))} STOA_RUN_DIR={shlex.quote(self.env['STOA_RUN_DIR'])}"
        return {
            "commerce": self.commerce_url,
            "inference": self.inference_url,
            "key": self.api_key,
            "logins": "\n".join(f"    {user['role']:12} {user['email']:32} {user['password']}" for user in self.users),
            "owner": json.dumps({"email": owner["email"], "password": owner["password"]}),
            "seed": f"{home} {shlex.quote(str(PYTHON))} {shlex.quote(str(ROOT / 'manage_commerce.py'))} seed",
            "stoa": f"{home} {shlex.quote(str(VENV / 'bin' / 'stoa'))}",
            "python": shlex.quote(str(PYTHON)),
            "logs": str(self.var / "log"),
        }


DEMO_TEXT = """
Stoa is up, after {seconds:.0f} s.

  The shop           {commerce}/api       pages {commerce}/api/docs   admin {commerce}/admin/
  The model server   {inference}/v1        pages {inference}/docs       admin {inference}/admin/
  Logs               {logs}

  Logins (role, e-mail, password):
{logins}

  API key of the super admin:
    {key}

  To paste into another terminal:

  Two hundred products with pictures, two years of orders, reviews and reports, for the shop and its admin
    {seed}

  A description from the shop
    TOKEN=$(curl -s {commerce}/api/token -H 'Content-Type: application/json' -d '{owner}' \\
      | {python} -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    curl -s {commerce}/api/generate-descriptions -H "Authorization: Bearer $TOKEN" \\
      -H 'Content-Type: application/json' \\
      -d '{{"product_name": "Brunvale Teapot", "keywords": ["hand-glazed", "drip-free spout"]}}'; echo

  The same model through the openai client
    {python} -c 'import openai; \\
      client = openai.OpenAI(base_url="{inference}/v1", api_key="{key}"); \\
      prompt = "Describe the Quellmar kettle. Keywords: quiet, copper base"; \\
      chat = client.chat.completions.create(model="stoa-describer", messages=[dict(role="user", content=prompt)]); \\
      print(chat.choices[0].message.content)'

  Its text as it is written
    {stoa} run stoa-describer "Describe the Oakhurst lamp. Keywords: warm light, linen shade"

  The models
    curl -s {inference}/models -H 'Authorization: Bearer {key}'; echo

Ctrl-C ends it all.
"""


def fetch(url: str, key: str = "", body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and JSON body; status 0 when nobody answers. With a body it is a POST."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, headers | {"Content-Type": "application/json"})  # noqa: S310 - ours
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=5 if body is None else 30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {}
    except (OSError, ValueError):
        return 0, {}


def answers(url: str, key: str = "", also: int = 200) -> bool:
    return fetch(url, key)[0] in (200, also)


def demo(arguments: argparse.Namespace) -> None:
    """Set up, run, and stay until a signal."""
    say(f"Stoa's demo, with Python {platform.python_version()}:")
    prepare_venv(["commerce", "inference"], cuda=arguments.cuda)
    Demo(arguments).run()
