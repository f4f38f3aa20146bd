"""Open a model of ``transformers``, and say in words why one cannot be opened.

Nothing is opened halfway: weights that are missing are an error, where the library would draw
random ones. Code that comes with a model is never run.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch

from course.core.digests import canonical_json, sha256_file
from course.core.errors import DataError, MachineError, UsageError
from course.core.paths import display, recorded

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = "auto, cpu, cuda, cuda:0, mps"
SUFFIXES = {".json", ".jinja", ".safetensors", ".bin", ".model", ".txt"}
"""What the files of a model end in: configuration, template, weights, vocabulary."""


class Opened(NamedTuple):
    """A model of ``transformers``, ready to sample."""

    model: Any
    tokenizer: Any
    facts: dict[str, Any]
    """What identifies it, for the manifest."""


def open_model(name: str, *, dtype: str, device: str) -> Opened:
    """Open a causal language model and its tokenizer.

    Args:
        name: a folder, or a name on the hub such as ``Qwen/Qwen2.5-0.5B-Instruct``.
        dtype: one of DTYPES. ``auto`` is float32 on the CPU, where halves are slow, and what the
            weights were saved in elsewhere.
        device: ``auto`` takes a GPU when there is one.

    Raises: UsageError for an unknown dtype or device; MachineError for a GPU that is not there and
        a hub that cannot be reached; DataError for what is no such model.
    """
    if dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype} is unknown. Choose one of {', '.join(DTYPES)}.")
    place = pick_device(device)
    folder = _folder(name)
    source = str(folder or name)
    if dtype == "auto" and place.type == "cpu":
        dtype = "float32"
    import transformers

    library: Any = transformers  # it ships types that are wrong
    with _in_words(name, folder), _quietly(bars=folder is None and sys.stderr.isatty()):
        tokenizer = library.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        model, report = library.AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, trust_remote_code=False, output_loading_info=True
        )
        model = model.eval().requires_grad_(False).to(place)
    if missing := sorted(report["missing_keys"]):
        raise DataError(
            f"{display(folder) if folder else name}: {len(missing)} tensors of the model are not "
            f"among its weights, {missing[0]} for one. The download or the copy is incomplete."
        )
    facts = {
        "kind": "hf",
        "name": recorded(folder) if folder else name,
        "revision": getattr(model.config, "_commit_hash", None),
        "sha256": _hashes(folder) if folder else None,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(place),
        "chat_template_sha256": _template_hash(tokenizer),
    }
    return Opened(model, tokenizer, facts)


def pick_device(name: str) -> torch.device:
    """Find a device by its name.

    Raises: UsageError for an unknown name; MachineError for a device that is not there.
    """
    gpus, mac = torch.cuda.device_count(), torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if gpus else "mps" if mac else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:\d{1,2})?", name):
        raise UsageError(f"--device {name} is unknown. Choose one of {DEVICES}.")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= gpus:
        has = f"torch finds {gpus} here" if gpus else "torch finds no such GPU here"
        raise MachineError(
            f"--device {name}: {has} (`nvidia-smi` shows what the machine has; a torch for CPUs "
            "alone sees none). Leave --device out to use the best there is."
        )
    if device.type == "mps" and not mac:
        raise MachineError(
            "--device mps needs a Mac with an Apple chip. Leave --device out to use the best there "
            "is."
        )
    return device


def _folder(name: str) -> Path | None:
    """Return the folder that a name leads to; None for a name on the hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise DataError(
                f"{display(path)} is not a model of transformers: it has no config.json. Such a "
                "folder holds config.json, model.safetensors and the tokenizer's files."
            )
        return path
    if path.exists():
        raise DataError(f"{display(path)} is a file; hf: takes a model's folder, or a hub name.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"{display(path)} does not exist. hf: takes a model's folder or hub name.")
    return None


@contextmanager
def _in_words(name: str, folder: Path | None) -> Iterator[None]:
    """Turn what ``transformers`` raises into a message."""
    try:
        yield
    except Exception as error:  # the library raises all kinds for a bad model
        lines = str(error).strip().splitlines() or ["it says no more"]
        reason = f"{type(error).__name__}: {lines[0]}"
        if isinstance(error, ImportError | MemoryError | torch.OutOfMemoryError):
            raise MachineError(f"{name} cannot be opened on this machine: {reason}") from error
        if folder:
            raise DataError(
                f"{display(folder)} is not a causal language model that transformers can open: "
                f"{reason}"
            ) from error
        if _unreachable(error):
            raise MachineError(
                f"There is no folder {name}, and the Hugging Face hub cannot be reached to look "
                "for a model of that name. Check the path, or go online; a model that was "
                "downloaded once needs no network."
            ) from error
        raise DataError(
            f"There is no folder {name}, and no model of that name that can be opened on the "
            f"Hugging Face hub: {reason}"
        ) from error


def _unreachable(error: BaseException | None) -> bool:
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    while error:
        if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _quietly(*, bars: bool) -> Iterator[None]:
    """Silence the library's commentary, and its progress bars unless they are wanted."""
    import transformers

    logging: Any = transformers.utils.logging
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    return {path.name: sha256_file(path) for path in files}


def _template_hash(tokenizer: Any) -> str | None:
    template = tokenizer.chat_template
    if not template:
        return None
    written = template.encode() if isinstance(template, str) else canonical_json(template)
    return sha256(written).hexdigest()
