"""All tables and sentences that are made from JSON, and the pages that have them."""

import fidelity  # noqa: F401  # modules of tables and sentences, which say on import what they make
import lake  # noqa: F401
import lander  # noqa: F401
import lander_gpu  # noqa: F401
import lander_gpu_said  # noqa: F401
import lander_said  # noqa: F401
import others  # noqa: F401
import others_said  # noqa: F401
import readme_said  # noqa: F401
from pages import PAGES, ROOT, made, unmarked, unsaid


def differing(*, write: bool) -> list[str]:
    """What pages say otherwise than the JSON. Tables are mended where `write` says so, and are no difference then."""
    found = [f"no page has the table {name}" for name in unmarked()]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := made(text)) != text:
            if write:
                page.write_text(new, encoding="utf-8")
            else:
                found.append(f"{page.relative_to(ROOT)} has other tables than the JSON: run python docs/tables")
    return [*found, *unsaid()]
