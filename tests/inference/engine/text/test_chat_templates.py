"""Chat templates: the sandbox, and the limits at load."""

import resource
from contextlib import suppress
from pathlib import Path

import pytest

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.requests import Message
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.tiny_models import TEMPLATE, byte_tokenizer, letter_tokenizer, save_causal

BOMBS = {
    "a long string": "{{ 'A' * 300000000 }}",
    "a string that grows": (
        "{% set ns = namespace(s='AAAA') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}"
    ),
    "nested loops": (
        "{% for a in range(2000) %}{% for b in range(2000) %}{% for c in range(2000) %}"
        "{% endfor %}{% endfor %}{% endfor %}"
    ),
    "a wide field": "{{ '%300000000d' % 1 }}",
    "a large power": "{{ 9 ** 99999999 }}",
    "much text": "{% for i in range(90000) %}a few words, and a few more{% endfor %}",
    "only with tools": "{% if tools %}{{ 'A' * 300000000 }}{% endif %}{{ messages[0].content }}",
    "only after an answer": "{% if messages | length > 2 %}{{ 'A' * 300000000 }}{% endif %}{{ messages[0].content }}",
}
ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__ }}",
    "{{ messages.append(1) }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ raise_exception.__globals__ }}",
    "{{ '{0.__class__}'.format(messages) }}",
    "{{ range(10 ** 9) | list }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
]


def with_template(template: str) -> Tokenizer:
    source = byte_tokenizer()
    source.chat_template = template
    return Tokenizer(source)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_m3_a_template_bomb_is_rejected_and_costs_the_parent_no_memory(bomb: str) -> None:
    tokenizer = with_template(bomb)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelLoadFailed, match="chat template exceeds its limits"):
        tokenizer.check_template()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 8 * 1024


@pytest.mark.parametrize("template", [TEMPLATE, "{{ raise_exception('not so') }}", "{{ 1 / 0 }}", "{% if %}", ""])
def test_a_template_that_raises_passes_the_check_of_limits(template: str) -> None:
    with_template(template).check_template()


def test_m3_a_folder_with_a_bomb_is_not_loaded(tmp_path: Path) -> None:
    source = letter_tokenizer()
    source.chat_template = BOMBS["a long string"]
    folder = save_causal(tmp_path / "bomb", "llama", source)
    with pytest.raises(ModelLoadFailed, match="chat template exceeds its limits"):
        load_model("bomb", folder, LoadOptions(), lambda outputs: None)


def test_m3_a_template_that_hangs_on_a_certain_message_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.engine.text.chat_templates.MAX_RENDER_SECONDS", 0.2)
    tokenizer = with_template("{% if 'slow' in messages[0].content %}" + BOMBS["nested loops"] + "{% endif %}Said")
    tokenizer.check_template()
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="chat template took longer than"):
            tokenizer.encode_chat([Message(role="user", content="slow")])
        said = tokenizer.encode_chat([Message(role="user", content="quick")])
        assert tokenizer.decode(said) == "Said"


@pytest.mark.parametrize("template", ESCAPES)
def test_m2_a_template_does_not_escape_its_sandbox(template: str) -> None:
    tokenizer = with_template(template)
    seen = ""
    with suppress(InvalidRequest):
        seen = tokenizer.decode(tokenizer.encode_chat((Message("user", "hello"),)))
    assert seen == ""
