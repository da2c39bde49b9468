"""Server-sent events that arrive in pieces."""

import pytest

from hermes_lab.models.wires.sse import EventReader, events_of


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("gap", [1, 2])
def test_events_are_the_same_wherever_a_stream_is_cut(ending: bytes, gap: int) -> None:
    lines = [
        b": ping",
        b'data: {"a": "\xc3\xa9"}',
        b'data:{"b":',
        b"data: 2}",
        b"",
        b"data: junk",
        b"",
        b"data: [DONE]",
    ]
    whole = b"\xef\xbb\xbf" + (ending * gap).join(lines[:2]) + ending * 2 + ending.join(lines[2:])
    expected = [{"a": "é"}, {"b": 2}, "[DONE]"]
    assert events_of(whole) == expected
    for size in range(1, len(whole)):
        reader = EventReader()
        fed = [event for at in range(0, len(whole), size) for event in reader.feed(whole[at : at + size])]
        assert fed + reader.end() == expected


def test_an_event_is_given_as_soon_as_its_line_is_complete() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"a": 1}') == []
    assert reader.feed(b"\n") == [{"a": 1}]
