"""Documents that an agent can find."""

from msgspec import Struct


class Page(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of a task's corpus: found by `web_search`, read by `web_extract`, and never in the workspace.

    `text` is what extraction gives (Markdown). `status` is that of HTTP: a page that is gone has 404 or 410, and its
    text is what the site says instead. A page that is not `listed` is found by its address alone: by a link.
    """

    url: str
    title: str
    text: str
    status: int = 200
    listed: bool = True
