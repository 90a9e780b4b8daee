"""The HTML of page elements: Jinja templates, in the folder templates."""

import re
from pathlib import Path

import jinja2

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True, trim_blocks=True, lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def html(name: str, /, **facts: object) -> str:
    """A template with these facts; text is escaped, Markup is not.

    Line breaks between tags are the template's own and left out.
    """
    made = ENVIRONMENT.get_template(f"{name}.html").render(facts)
    return re.sub(r">\s*\n\s*<", "><", made.strip())
