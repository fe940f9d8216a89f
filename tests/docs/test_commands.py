"""The commands that pages name exist with their options; what no test can try is marked as such.

tests/journeys/test_documented_commands.py runs the code blocks.
"""

import json
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from tests.docs.commands import Section, all_sections
from tests.docs.pages import CHECKOUT

SECTIONS = all_sections()
LANGUAGES = {"sh", "python", "json", "text", "mermaid"}
RUN_ON_MACHINES = "docs/operator/cluster.md"  # tests/machines runs its commands on simulated machines
AT_START = r"(?:^|[;&|(`])\s*"
# Programs that need root, containers, or other servers than the tests have.
NEEDS_ANOTHER_MACHINE = re.compile(
    rf"{AT_START}(?:docker|kubectl|systemctl|systemd-run|journalctl|nginx|useradd|createuser|install|stoa_run) ",
    re.MULTILINE,
)
OWN_COMMAND = re.compile(
    rf"{AT_START}(?:[A-Z_]+=\S+ )*(?:\S*\bpython[\d.]* )?"
    r"(?P<program>(?:\S*/)?stoa|manage_commerce\.py|manage_inference\.py|deploy/run) (?P<words>[^;&|`#\n]*)",
    re.MULTILINE,
)
MODULE = re.compile(r"python[\d.]* -m (?P<module>(?:inference|commerce|shared|tests)[\w.]*)(?P<words>[^;&|`#\n]*)")
OPTION = re.compile(r"--[a-z][\w-]*")

# Prints the commands of a project, each with the words of its help.
LIST_DJANGO_COMMANDS = """
import json, django
from django.core.management import get_commands, load_command_class
django.setup()
help = {"": ""}
for name, app in get_commands().items():
    parser = load_command_class(app, name).create_parser("manage.py", name)
    choices = [one.choices for one in parser._actions if one.choices and not one.option_strings]
    help |= dict.fromkeys([name, *(f"{name} {choice}" for choice in sum(map(list, choices), []))], parser.format_help())
"""
LIST_STOA_COMMANDS = """
from typer.main import get_command
from inference.cli.app import app

def add(command, words):
    help[" ".join(words)] = " ".join(name for one in command.params for name in (*one.opts, *one.secondary_opts))
    for name, below in getattr(command, "commands", {}).items():
        add(below, [*words, name])

add(get_command(app), [])
"""
PRINT = "print(json.dumps(help))"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def commands() -> dict[str, dict[str, str]]:
    """Return the help of each command by program and the words of the command."""

    def listed(project: str, program: str) -> dict[str, str]:
        setting = f"import os; os.environ['DJANGO_SETTINGS_MODULE'] = '{project}.config.settings.dev'\n"
        return dict(json.loads(run("-W", "ignore", "-c", setting + program).splitlines()[-1]))

    benchmarks = {path.stem: path.read_text() for path in (CHECKOUT / "tests" / "benchmarks").glob("*/[!_]*.py")}
    names = ("demo", "test", "check", "bench", "backup", "restore")
    steps = {"": ""} | {name: run("deploy/run", name, "--help") for name in names}
    model_server = listed("inference", LIST_DJANGO_COMMANDS + LIST_STOA_COMMANDS + PRINT)
    return {
        "stoa": model_server,
        "manage_inference.py": model_server,
        "manage_commerce.py": listed("commerce", LIST_DJANGO_COMMANDS + PRINT),
        "deploy/run": steps | {f"bench {name}": steps["bench"] + text for name, text in benchmarks.items()},
    }


def code_of(section: Section) -> list[str]:
    """Return the shell blocks of a section, with joined lines, and its inline code."""
    return [*(one.code.replace("\\\n", " ") for one in section.blocks if one.language == "sh"), *section.inline_code]


def problem_of(words: str, known: dict[str, str]) -> str:
    """Return what is wrong with the words of a command, or an empty text."""
    names = list(takewhile(re.compile(r"[a-z][\w-]*$").match, words.replace("[", " ").split()))[:2]  # others vary
    command = next(name for end in (2, 1, 0) if (name := " ".join(names[:end])) in known)
    is_group = any(name.startswith(f"{command} ".lstrip()) for name in known)
    if is_group and len(command.split()) < len(names):
        return f"there is no command {' '.join(names)!r}"
    unknown = {*OPTION.findall(words)} - {*OPTION.findall(known[command]), "--help"}
    return f"there is no option {', '.join(unknown)}" if unknown else ""


def test_every_command_that_a_page_names_exists_with_its_options(commands: dict[str, dict[str, str]]):
    checked, wrong = 0, []
    for section in SECTIONS:
        for code in code_of(section):
            for found in OWN_COMMAND.finditer(code):
                checked += 1
                known = commands[found["program"].rpartition("bin/")[2]]
                if problem := problem_of(found["words"], known):
                    wrong.append((section.page, found[0].strip(), problem))
    assert wrong == []
    assert checked > 100


def test_every_module_that_a_page_runs_exists_with_its_options():
    runs = [(one.page, *found.groups()) for one in SECTIONS for code in code_of(one) for found in MODULE.finditer(code)]
    assert len(runs) > 5
    for page, module, words in runs:
        path = CHECKOUT / module.replace(".", "/")
        files = [path.with_suffix(".py")] if not path.is_dir() else [path / "__main__.py", *path.glob("*.py")]
        assert files[0].exists(), (page, module)
        text = "".join(file.read_text() for file in files)
        assert [option for option in OPTION.findall(words) if option not in text] == [], (page, module)


def test_every_code_block_says_its_language():
    assert [(one.page, block.code) for one in SECTIONS for block in one.blocks if block.language not in LANGUAGES] == []


def test_shell_blocks_have_no_comments():
    """Without them a block can also be pasted into zsh, whose interactive shells know no comments."""
    tried = [one for one in SECTIONS if not one.not_tried]
    blocks = [(one.page, block.code) for one in tried for block in one.blocks if block.language == "sh"]
    assert [(page, code) for page, code in blocks if re.search(r"(?:^|\s)#", code)] == []


def test_what_the_tests_cannot_try_is_marked_and_nothing_else():
    """A section is marked by a sentence of its own, or by one in the introduction of its page."""
    sections = [one for one in SECTIONS if one.page != RUN_ON_MACHINES]
    needing = [one for one in sections if any(map(NEEDS_ANOTHER_MACHINE.search, code_of(one)))]
    marked = [one for one in SECTIONS if one.not_tried]
    introductions = {one.page: one for one in reversed(SECTIONS) if one.title}
    unmarked = [one for one in needing if not one.not_tried and not introductions[one.page].not_tried]
    assert [f"{one.page}: {one.title}" for one in unmarked] == []
    pages = {one.page for one in needing}
    needless = [
        one for one in marked if one not in needing and not (one.page in pages and one in introductions.values())
    ]
    assert [f"{one.page}: {one.title}" for one in needless] == []
    assert len(marked) >= 8


DEPLOYED_FILES = [
    path
    for path in sorted((CHECKOUT / "deploy").rglob("*"))
    if path.suffix not in (".md", ".py", ".pyc", ".json") and path.is_file()
]


def test_commands_for_containers_in_the_files_of_deploy_are_marked():
    command = re.compile(r"^ *#.*(?:docker (?:build|compose)|kubectl (?:apply|create)) ", re.MULTILINE)
    files = [path for path in DEPLOYED_FILES if command.search(path.read_text())]
    assert len(files) >= 6
    mark = "# Not tried by the tests: "
    assert [str(path.relative_to(CHECKOUT)) for path in files if mark not in path.read_text()] == []


def test_the_programs_that_make_keys_print_one():
    text = "".join(path.read_text() for path in [*DEPLOYED_FILES, Path(CHECKOUT / "docs" / "operator" / "security.md")])
    programs = set(re.findall(r"python3? -c '([^']+)'", text))
    assert programs
    for program in programs:
        assert len(run("-c", program).strip()) >= 48
