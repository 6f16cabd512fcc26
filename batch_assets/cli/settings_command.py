"""`settings`: every setting, its value here, and what it means; the README's table is made from the same rows."""

from __future__ import annotations

from batch_assets.cli import options
from batch_assets.cli.output import emit, table
from resources.settings import Settings, load_settings

PREFIX = "BATCH_ASSETS_"


def settings(*, json: options.JsonOption = False) -> None:
    """Show the settings of this process: environment variable, value and meaning."""
    here = load_settings().model_dump()
    values = {name: None if value is None else str(value) for name, value in here.items()}
    if json:
        emit({f"{PREFIX}{name.upper()}": value for name, value in values.items()})
        return
    rows = [[variable, values[name] or "", meaning] for name, variable, _, meaning in setting_rows()]
    table(["variable", "value", "meaning"], rows)


def setting_rows() -> list[tuple[str, str, str, str]]:
    """Return (field, variable, default, meaning) of every setting."""
    return [
        (name, f"{PREFIX}{name.upper()}", "" if field.default is None else str(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def markdown_table() -> str:
    """Return the settings as the table of the README."""
    rows = [
        f"| `{variable}` | {f'`{default}`' if default else ''} | {text.replace('<', '&lt;')} |"
        for _, variable, default, text in setting_rows()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


COMMANDS = (settings,)
