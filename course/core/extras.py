"""Which install brings which library, so that a missing one can be named with its cure."""

CORE = ("msgspec", "jsonschema", "numpy", "scipy", "rich", "jinja2", "matplotlib")
EXTRAS = {
    "learn": ("torch", "transformers", "accelerate", "safetensors", "tokenizers"),
    "hub": ("openai", "peft", "datasets"),
    "notebooks": ("jupyter", "pandas", "nbclient"),
}


def how_to_install(module: str) -> str | None:
    """Say how to install what brings a module; None for a module that no install here brings.

    Args:
        module: the name that could not be imported, such as ``torch.nn``.
    """
    library = module.partition(".")[0]
    if library in CORE:
        return (
            f"The library {library!r} is not installed in this Python. Type `make demo` once and "
            "then `source .venv/bin/activate`; with Poetry: `poetry install`."
        )
    for extra, libraries in EXTRAS.items():
        if library in libraries:
            return (
                f"This needs {library!r}, which comes with the extra {extra!r}. Type "
                f"`make {extra}`, or with Poetry: `poetry install --extras {extra}`."
            )
    return None
