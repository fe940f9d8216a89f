"""Malicious model folders. Each is a good model with one attack, which creates the file `canary` if it succeeds."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Corrupt = Callable[[Path, Path], None]  # (model folder, folder outside the model folders)


def set_key(name: str, **values: Any) -> Corrupt:
    def corrupt(folder: Path, outside: Path) -> None:
        content = json.loads((folder / name).read_text()) | values
        (folder / name).write_text(json.dumps(content))

    return corrupt


def use_pickle(folder: Path, outside: Path) -> None:
    (folder / "model.safetensors").unlink()
    payload = f"cposix\nsystem\n(S'touch {outside / 'canary'}'\ntR."
    (folder / "pytorch_model.bin").write_text(payload)


def add_code(folder: Path, outside: Path) -> None:
    (folder / "modeling_malicious.py").write_text(f"open({str(outside / 'canary')!r}, 'w')\nclass Attack: pass\n")


def add_mapped_code(folder: Path, outside: Path) -> None:
    add_code(folder, outside)
    set_key("config.json", auto_map={"AutoConfig": "modeling_malicious.Attack"})(folder, outside)


def link_folder(folder: Path, outside: Path) -> None:
    shutil.move(folder, outside / "whole")
    folder.symlink_to(outside / "whole")


def link_weights(folder: Path, outside: Path) -> None:
    shutil.move(folder / "model.safetensors", outside / "weights")
    (folder / "model.safetensors").symlink_to(outside / "weights")


def link_subfolder(folder: Path, outside: Path) -> None:
    (folder / "1_Pooling").symlink_to(outside)


def escape_by_index(folder: Path, outside: Path) -> None:
    shutil.copy(folder / "model.safetensors", outside / "model.safetensors")
    name = os.path.relpath(outside / "model.safetensors", folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))


def declare_endless_header(folder: Path, outside: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")


def write_huge_header(folder: Path, outside: Path) -> None:
    size = 100 * 1024 * 1024
    with (folder / "model.safetensors").open("wb") as file:
        file.write(size.to_bytes(8, "little") + b"{")
        file.truncate(8 + size)


def declare_wrong_shapes(folder: Path, outside: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def escape_template_sandbox(folder: Path, outside: Path) -> None:
    touch = f"touch {outside / 'canary'}"
    escape = "{{ cycler.__init__.__globals__.os.popen('" + touch + "').read() }}"
    (folder / "chat_template.jinja").write_text(escape)


def loop_in_template(folder: Path, outside: Path) -> None:
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(loop)


def write_wrong_digest(folder: Path, outside: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.safetensors\n")


MALICIOUS: dict[str, Corrupt] = {
    "pickle": use_pickle,
    "code": add_code,
    "mapped-code": add_mapped_code,
    "remote-code": set_key("config.json", auto_map={"AutoModelForCausalLM": "evil/repo--modeling.Evil"}),
    "remote-tokenizer": set_key("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil/repo--t.Evil", None]}),
    "remote-attention": set_key("config.json", _attn_implementation_internal="evil/kernels"),
    "remote-experts": set_key("config.json", text_config={"_experts_implementation": "evil/kernels"}),
    "quantiser": set_key("config.json", quantization_config={"quant_method": "evil"}),
    "linked-folder": link_folder,
    "linked-weights": link_weights,
    "linked-within": link_subfolder,
    "slipping-index": escape_by_index,
    "endless-header": declare_endless_header,
    "huge-header": write_huge_header,
    "lying-header": declare_wrong_shapes,
    "escaping-template": escape_template_sandbox,
    "endless-template": loop_in_template,
    "wrong-digest": write_wrong_digest,
}
