"""Who may train in a run directory: the config in it is the law."""

from __future__ import annotations

from typing import Any

from attention import configuration
from attention.training import tracking
from attention.training.run_directory import RunDirectory


def claim_directory(run: RunDirectory, config: Any) -> Any:
    """Writes config.json in a new directory; compares with it in one that holds progress.

    Returns the config to train with. Raises `UserError` where the directory holds another one.
    """
    text = run.read_config()
    if text is not None and run.has_progress:
        saved = configuration.from_json(text, source=str(run.config_file))
        config = configuration.choose_implementation(config, saved=saved)
        config = configuration.continue_with(saved, config, where=str(run.path))
    elif text is not None:
        # A command that failed before its first step protects nothing.
        tracking.forget(run)
        run.forget()
        config = configuration.choose_implementation(config)
    else:
        config = configuration.choose_implementation(config)
    run.write_config(configuration.to_json(config))
    return config
