"""Model folders that are attacks. Each is a whole good model but for one thing; who falls for it touches `canary`."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Spoil = Callable[[Path, Path], None]  # the folder; a folder outside of the model folders, with a secret and the canary


def set_key(name: str, **values: Any) -> Spoil:
    def spoil(folder: Path, outside: Path) -> None:
        content = json.loads((folder / name).read_text()) | values
        (folder / name).write_text(json.dumps(content))

    return spoil


def pickled(folder: Path, outside: Path) -> None:
    (folder / "model.safetensors").unlink()
    payload = f"cposix\nsystem\n(S'touch {outside / 'canary'}'\ntR."
    (folder / "pytorch_model.bin").write_text(payload)


def with_code(folder: Path, outside: Path) -> None:
    (folder / "modeling_evil.py").write_text(f"open({str(outside / 'canary')!r}, 'w')\nclass Evil: pass\n")


def with_mapped_code(folder: Path, outside: Path) -> None:
    with_code(folder, outside)
    set_key("config.json", auto_map={"AutoConfig": "modeling_evil.Evil"})(folder, outside)


def linked_folder(folder: Path, outside: Path) -> None:
    shutil.move(folder, outside / "whole")
    folder.symlink_to(outside / "whole")


def linked_weights(folder: Path, outside: Path) -> None:
    shutil.move(folder / "model.safetensors", outside / "weights")
    (folder / "model.safetensors").symlink_to(outside / "weights")


def linked_within(folder: Path, outside: Path) -> None:
    (folder / "1_Pooling").symlink_to(outside)


def slipping_index(folder: Path, outside: Path) -> None:
    shutil.copy(folder / "model.safetensors", outside / "model.safetensors")
    name = os.path.relpath(outside / "model.safetensors", folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))


def endless_header(folder: Path, outside: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")


def huge_header(folder: Path, outside: Path) -> None:
    size = 100 * 1024 * 1024
    with (folder / "model.safetensors").open("wb") as file:
        file.write(size.to_bytes(8, "little") + b"{")
        file.truncate(8 + size)


def lying_header(folder: Path, outside: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def escaping_template(folder: Path, outside: Path) -> None:
    touch = f"touch {outside / 'canary'}"
    escape = "{{ cycler.__init__.__globals__.os.popen('" + touch + "').read() }}"
    (folder / "chat_template.jinja").write_text(escape)


def endless_template(folder: Path, outside: Path) -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(loop)


def wrong_digest(folder: Path, outside: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.safetensors\n")


EVIL: dict[str, Spoil] = {
    "pickle": pickled,
    "code": with_code,
    "mapped-code": with_mapped_code,
    "remote-code": set_key("config.json", auto_map={"AutoModelForCausalLM": "evil/repo--modeling.Evil"}),
    "remote-tokenizer": set_key("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil/repo--t.Evil", None]}),
    "remote-attention": set_key("config.json", _attn_implementation_internal="evil/kernels"),
    "remote-experts": set_key("config.json", text_config={"_experts_implementation": "evil/kernels"}),
    "quantiser": set_key("config.json", quantization_config={"quant_method": "evil"}),
    "linked-folder": linked_folder,
    "linked-weights": linked_weights,
    "linked-within": linked_within,
    "slipping-index": slipping_index,
    "endless-header": endless_header,
    "huge-header": huge_header,
    "lying-header": lying_header,
    "escaping-template": escaping_template,
    "endless-template": endless_template,
    "wrong-digest": wrong_digest,
}
