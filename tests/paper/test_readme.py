"""The numbers in README.md are those that were measured."""

import json

import readme


def test_table_is_that_of_the_stored_numbers():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.REGION.search(text)
    assert readme.with_numbers(text, json.loads(readme.STORED.read_text(encoding="utf-8"))) == text


def test_a_number_edited_by_hand_is_noticed():
    stored = json.loads(readme.STORED.read_text(encoding="utf-8"))
    ours = stored["numbers"]["Matrix completion"]["ML-1M"][readme.WEIGHTED]
    text = readme.README.read_text(encoding="utf-8")
    edited = text.replace(f"{ours['final']:.4f}", "0.1234")
    assert edited != text
    assert readme.with_numbers(edited, stored) == text
