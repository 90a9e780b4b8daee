"""The HTML of page elements: Jinja templates, in the folder templates."""

from pathlib import Path

import jinja2

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True, trim_blocks=True, lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def html(name: str, **facts: object) -> str:
    """A template with these facts; text is escaped, Markup is not."""
    return ENVIRONMENT.get_template(f"{name}.html").render(facts)
