"""The page's templates, with everything escaped that is not markup already: names in stores may be hostile."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cisr.view.tables import csv_row, latex_row


def render(template: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(template).render(values))


@cache
def _environment() -> Environment:
    loader = PackageLoader("cisr.view")
    made = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    made.filters |= {"latex_row": latex_row, "csv_row": csv_row}
    return made
