"""Config arguments: key=value pairs after the colon."""

import pytest

from attention.configuration import merge_arguments, parse_argument
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_pairs_are_split() -> None:
    assert parse_argument("variant=linear, size=tiny,") == {"variant": "linear", "size": "tiny"}
    assert parse_argument("") == {}


@pytest.mark.parametrize("text", ["tiny", "size=", "=tiny", "size=tiny,variant"])
def test_a_part_that_is_no_pair_is_named(text: str) -> None:
    with pytest.raises(UserError, match="expected key=value"):
        parse_argument(text)


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="'size' is given twice"):
        parse_argument("size=tiny,size=base")


def test_merging_goes_key_by_key() -> None:
    assert merge_arguments("size=tiny,seed=1", "seed=2,variant=x") == "size=tiny,seed=2,variant=x"
    assert merge_arguments("", "seed=2") == "seed=2"
    assert merge_arguments("runs/pos", "") == "runs/pos"
