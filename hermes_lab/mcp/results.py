"""What the model sees of a call's result."""

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import anyio.to_thread

from hermes_lab.errors import StoreError
from hermes_lab.kept import keep
from hermes_lab.text.clip import clip

FOLDER = "blobs"
"""The folder of a run with the images and files that tools returned, named by their sha256."""


async def answer_of(result: Mapping[str, Any], blobs: Path | None, limit: int) -> dict[str, Any]:
    """The answer of a tool: `content`, the texts; `structured`, structured content that is not the same text;
    `attachments`, images, audio and files, which are kept in `blobs`. A failed call has an `error` instead of the
    texts.

    Texts longer than `limit` characters are cut in the middle, and no more attachments are told than fit into as many.
    Raises `StoreError`.
    """
    texts: list[str] = []
    attachments: list[dict[str, Any]] = []
    structured = _finite(result.get("structuredContent"))
    blocks = result.get("content")
    if not isinstance(blocks, list):
        if structured is None:
            return {"error": "the server's answer is empty"}
        blocks = []
    for block in blocks:
        if not isinstance(block, dict):
            texts.append("(a part that cannot be shown)")
            continue
        match block.get("type"):
            case "text":
                texts.append(str(block.get("text") or ""))
            case "image" | "audio":
                attachments.append(await _kept(block.get("data"), block.get("mimeType"), blobs))
            case "resource":
                resource = block.get("resource")
                if not isinstance(resource, dict):
                    resource = {}
                if "text" in resource:
                    texts.append(f"{resource.get('uri', '')}\n{resource['text']}")
                else:
                    where = {"uri": resource["uri"]} if "uri" in resource else {}
                    attachments.append(where | await _kept(resource.get("blob"), resource.get("mimeType"), blobs))
            case "resource_link":
                attachments.append(_finite({k: block[k] for k in ("uri", "name", "mimeType", "size") if k in block}))
            case other:
                texts.append(f"(a part of the type {other}, which cannot be shown)")
    text = clip("\n".join(texts), limit).text
    if structured is not None and text and isinstance(structured, dict) and list(structured.values()) == [text]:
        structured = None
    if result.get("isError"):
        answer: dict[str, Any] = {"error": text or "the tool failed without a message"}
    elif structured is not None and (not text or _same(text, structured)):
        answer = {}
    else:
        answer = {"content": text} if text or not attachments else {}
    if structured is not None:
        whole = json.dumps(structured, ensure_ascii=False)
        answer["structured"] = structured if len(whole) <= limit else clip(whole, limit).text
    if attachments:
        told = _fitting(attachments, limit)
        answer["attachments"] = told
        if len(told) < len(attachments):
            answer["attachments_not_shown"] = len(attachments) - len(told)
    return answer


def _fitting(attachments: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    sizes = accumulate(len(json.dumps(each, ensure_ascii=False)) for each in attachments)
    return [each for each, size in zip(attachments, sizes, strict=True) if size <= limit]


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON does not have: programs in Python write NaN all the same."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return value


def _same(text: str, structured: Any) -> bool:
    """Whether the text is the structured content as JSON, which servers repeat for older clients."""
    try:
        return bool(json.loads(text) == structured)
    except ValueError:
        return False


async def _kept(data: Any, kind: Any, blobs: Path | None) -> dict[str, Any]:
    described: dict[str, Any] = {"type": kind} if kind else {}
    try:
        content = base64.b64decode(data or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return described | {"problem": "no valid base64"}
    described |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if blobs is not None:
        try:
            await anyio.to_thread.run_sync(keep, blobs, content, "")
        except StoreError as error:
            raise StoreError(f"cannot keep what a tool returned: {error}") from None
    return described
