"""Tests of the profile."""

from profile_csv import kind_of, profile

assert kind_of(["1", "2.5"]) == "number"
assert kind_of(["007", "008"]) == "text"
assert kind_of(["1", "1,234"]) == "text (1 numbers)"
lines, remarks = profile([["a", "b"], ["1", "x"], ["10", ""], ["9"], ["1", "x"]])
assert lines[0] == ("a", "number", "0", "3", "1", "10")
assert lines[1] == ("b", "text", "2", "1", "x", "x")
assert remarks == ["4 rows, 2 columns, 1 duplicate rows", "1 rows do not have 2 cells: row 4"]
assert profile([]) == ([], ["the file is empty"])
