"""What a SKILL.md says under its headings."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.sections import anatomy
from hermes_lab.types import Skill

TEXT = """\
---
name: sales-report
description: Write a sales report.
compatibility: Python 3.11
metadata:
  tags: csv, report
  hermes-source: https://example.org/skills.git
---

# Sales report

## When to use
Somebody asks for totals by product.
Not for forecasts.

## Prerequisites
- pandas
- a folder `data/`

## Steps
```bash
# Pitfalls are not here
python3 scripts/report.py <month> {region} <month>
```
```python
second()
```

### Common pitfalls
1. Months are in UTC.
2. Empty files
   have no header.

## Verification
The totals add up.
"""


def test_every_part_is_found_under_its_heading() -> None:
    found = anatomy(skill_format.parse(TEXT))
    assert found.triggers == "Somebody asks for totals by product.\nNot for forecasts."
    assert found.template == "# Pitfalls are not here\npython3 scripts/report.py <month> {region} <month>"
    assert found.parameters == ("month", "region")
    assert found.dependencies == ("pandas", "a folder `data/`", "Python 3.11")
    assert found.pitfalls == ("Months are in UTC.", "Empty files have no header.")
    assert found.tags == ("csv", "report")
    assert found.source == "https://example.org/skills.git"


def test_named_parameters_go_before_placeholders_and_prose_is_a_list_of_paragraphs() -> None:
    body = "## Parameters\nThe month.\n\nThe\nregion.\n## Steps\n~~~\nrun <x>\n~~~"
    found = anatomy(skill_format.parse(skill_format.render("a", "d", body)))
    assert found.parameters == ("The month.", "The region.")
    assert found.template == "run <x>"


@given(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip))
def test_any_body_has_an_anatomy(body: str) -> None:
    anatomy(Skill("a", "d", skill_format.render("a", "d", body)))
