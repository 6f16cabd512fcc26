"""A declared job over the user's own records: the same recipe, another input, and so another version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batch_assets.domain.errors import InputError, InvalidSpec, UserError
from batch_assets.domain.spec import InputColumns, InputSpec, JobSpec

ID_TYPES = ("string", "integer")
COLUMNS_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnInput:
    """What the options say; None where an option was not given."""

    uri: str | None = None
    id_column: str | None = None
    text_column: str | None = None
    id_type: str | None = None
    carry: str | None = None
    access_column: str | None = None
    limit: int | None = None

    @property
    def given(self) -> bool:
        """Whether any option was given."""
        return self != OwnInput()

    def names(self) -> tuple[str, ...] | None:
        """Return the columns of `--carry`, or None if it was not given; empty text means none."""
        if self.carry is None:
            return None
        return tuple(name.strip() for name in self.carry.split(",") if name.strip())


def with_own_input(spec: JobSpec, own: OwnInput, present: Sequence[str]) -> tuple[JobSpec, list[str]]:
    """Return the job over the user's records, and what the user should know about it, a sentence each.

    A declared column that the user did not name is read if the input has it. What is left out is said: carried
    columns, and above all access labels, which the results then cannot inherit.

    Args:
        spec: the declared job.
        own: the options.
        present: the columns that the input has.

    Raises:
        UserError: an option cannot work, or the id, the text or the prompt needs a column that the input does not have.
    """
    if own.id_type not in (None, *ID_TYPES):
        raise UserError(f"--id-type: must be one of {', '.join(ID_TYPES)}, is {own.id_type!r}")
    declared = spec.input.columns
    _check_present(own.id_column or declared.id, "--id-column", own, present)
    _check_present(own.text_column or declared.text, "--text-column", own, present)
    columns, notes = _columns(declared, own, present)
    changed = InputSpec(
        uri=own.uri or spec.input.uri,
        columns=columns,
        limit=own.limit if own.limit is not None else (None if own.uri else spec.input.limit),
    )
    try:
        return replace(spec, input=changed), notes
    except InvalidSpec as error:
        raise InvalidSpec(f"{error} (the job's prompt uses it; your input lacks it, or --carry does)") from None


def _check_present(name: str, option: str, own: OwnInput, present: Sequence[str]) -> None:
    """JSON lines may lack any key, so a snapshot of them cannot refuse one: every record would be a dead letter."""
    if present and name not in present:
        place = f"{own.uri}: " if own.uri else ""
        there = ", ".join(repr(column) for column in present[:COLUMNS_SHOWN])
        raise InputError(f"{place}has no column {name!r} ({option} names it); it has {there}")


def _columns(declared: InputColumns, own: OwnInput, present: Sequence[str]) -> tuple[InputColumns, list[str]]:
    id_name, text_name = own.id_column or declared.id, own.text_column or declared.text
    named = own.names()
    notes = []
    if named is None:
        wanted = [name for name in declared.carry if name not in (id_name, text_name, own.access_column)]
        carry = tuple(name for name in wanted if name in present)
        if absent := [name for name in declared.carry if name not in carry]:
            notes.append(f"not carried to the results (the input has no such column): {', '.join(absent)}")
    else:
        carry = named
        if left := [name for name in declared.carry if name not in carry]:
            notes.append(f"not carried to the results (not in --carry): {', '.join(left)}")
    access = own.access_column or (declared.access if declared.access in present else None)
    if access in (id_name, text_name, *carry):
        access = own.access_column  # an explicit clash is refused below, by name
    if declared.access and access is None:
        notes.append(f"no access labels: the input has no column {declared.access!r}, so the results carry none")
    id_type = "integer" if (own.id_type or declared.id_type) == "integer" else "string"
    return InputColumns(id=id_name, text=text_name, carry=carry, access=access, id_type=id_type), notes  # type: ignore[arg-type]
