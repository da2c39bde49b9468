"""Pages that an agent can search."""

from msgspec import Struct


class Page(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of a task's corpus: found by `web_search`, read by `web_extract`, and never in the workspace.

    `text` is the extracted Markdown. `status` is the HTTP status: a page that is gone has 404 or 410, and its text is
    the site's error page. A page that is not `listed` can only be reached by its address, through a link. `html` is
    what a browser gets; empty: made from the text.
    """

    url: str
    title: str
    text: str
    status: int = 200
    listed: bool = True
    html: str = ""
