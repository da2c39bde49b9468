import tempfile

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.text.clip import clip, read_clipped

TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)
LIMITS = st.integers(1, 60)


@given(text=TEXTS, limit=LIMITS)
def test_kept_and_cut_add_up(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    if not clipped.truncated:
        assert clipped.text == text
        assert len(text) <= limit
        return
    head, tail = text[: limit // 2], text[len(text) - (limit - limit // 2) :]
    assert clipped.text == f"{head}\n[... {len(text) - limit} characters cut ...]\n{tail}"


@given(text=TEXTS, limit=LIMITS)
def test_a_file_is_clipped_like_its_text(text: str, limit: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        assert read_clipped(file, limit) == clip(text, limit)


@given(data=st.binary(max_size=400), limit=LIMITS)
def test_any_bytes_are_text_in_the_end(data: bytes, limit: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        assert len(read_clipped(file, limit).text) <= limit + 50
