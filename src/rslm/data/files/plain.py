"""Text in the form that all readers of tables accept: UTF-8, standard quotes. Most files need no rewriting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rslm.data.files.dialect import SAMPLE, Dialect, guess
from rslm.data.files.encoding import UTF8, by_mark, in_utf8, named, no_utf8, not_in
from rslm.data.files.foreign import refuse_foreign
from rslm.data.files.quotes import line_at, rewritten, survey
from rslm.data.files.tools import blocks


@dataclass(frozen=True)
class Plain:
    """A text table, as it is or rewritten, and its dialect."""

    source: Path | bytes
    dialect: Dialect
    shaped: bool = False  #: whether it was rewritten with line ends and separators that all readers know

    @classmethod
    def of(
        cls,
        name: str,
        source: Path | bytes,
        delimiter: str | None,
        header: bool | None,
        encoding: str | None,
        one_column: bool = False,
        folder: Path | None = None,
    ) -> Plain:
        """Check the whole text, in blocks, so that it need not fit in memory.

        Parameters
        ----------
        name : for messages
        source : the file, which may be compressed, or its content
        delimiter, header, encoding
            Guessed if None.
        one_column : whether a table of one column is accepted
        folder : where rewritten text is put; in memory or the usual place for temporary files if None
        """
        sample = next(blocks(source, name, SAMPLE), b"")
        known = by_mark(sample) if encoding is None else named(encoding)
        if known is None:
            refuse_foreign(sample, name)
        if known is not None and known.codec not in UTF8:
            source = in_utf8(source, name, known, folder)
            sample = next(blocks(source, name, SAMPLE), b"")
            refuse_foreign(sample, name)
        dialect = guess(sample, name, delimiter, header, one_column)
        found = survey(source, name, dialect.delimiter)
        if not found.utf8:
            if known is not None:
                raise not_in(source, name, known.codec, "name the encoding (--encoding, or encoding= in Python)")
            known = no_utf8(source, name)
            source = in_utf8(source, name, known, folder)
        remarks = [known.said] if known is not None and known.said else []
        shaped = not found.usual or (found.escaped and found.breaks > 0)
        breaks, line = found.breaks, 0
        if shaped:
            way = rewritten(source, name, dialect.delimiter, separator_of(dialect.delimiter), found, folder)
            source, breaks, line = way.source, way.breaks, way.line
            if way.escapes:
                remarks.append("quotes escaped by backslashes")
            if way.spaced:
                remarks.append("blanks before cells left out")
        elif breaks:
            line = line_at(source, name, found.first)
        if breaks:
            remarks.append(
                f"{breaks:,} line break{'s' if breaks > 1 else ''} within cells (the first in line {line:,})"
            )
        dialect = replace(dialect, remarks=tuple(remarks), bare_returns=dialect.bare_returns and not shaped)
        return cls(source, dialect, shaped)


def separator_of(delimiter: str) -> str:
    """A separator of one character, as most readers need it."""
    return delimiter if len(delimiter) == 1 else "\t"
