"""What is written for a line of input."""

import numpy as np
import pytest

from attention.decoding.answers import Answers, alignment_columns
from attention.decoding.searching import Search
from attention.errors import UserError

pytestmark = pytest.mark.fast

HOW = Search(bos=2, eos=3, pad=0, max_length=9, beam_size=4)
DRAWN = HOW._replace(temperature=1.0, beam_size=1)


def test_one_line_a_line_unless_more_are_asked_for():
    assert Answers().written(7, ["a b"], [-1.0]) == "a b\n"
    assert Answers(1).written(7, ["a b"], [-1.0]) == "7\t-1.0000\ta b\n"
    two = Answers(2).written(7, ["a b", "c"], np.array([-0.25, -1.5], np.float32))
    assert two == "7\t-0.2500\ta b\n7\t-1.5000\tc\n"


def test_there_are_as_many_lines_as_asked_for_whatever_was_found():
    assert Answers(3).written(2, [""], [0.0]) == "2\t0.0000\t\n2\t-inf\t\n2\t-inf\t\n"


def test_pairs_count_from_0_and_pieces_hold_no_whitespace():
    places = np.array([1, 0, 0, 0])
    pairs, source, target = alignment_columns(places, ["\u2581red", "dog"], ["d\to", " (", "x"])
    assert pairs == "1-0 0-1 0-2"
    assert source == "\u2581red dog" and target == "d\u2581o \u2581( x"
    assert alignment_columns(places, [], ["a"]) == ["", "", "a"]


@pytest.mark.parametrize(
    ("answers", "how", "attends", "message"),
    [
        (Answers(0), HOW, True, "--nbest=0: expected an int of 1 or more"),
        (Answers(5), HOW, True, r"--nbest=5: .*decode\.beam_size=4 .* add --decode=beam_size=5"),
        (Answers(alignments=True), HOW, False, "--alignments: a model with cross=none"),
    ],
)
def test_what_cannot_be_is_refused(answers, how, attends, message):
    with pytest.raises(UserError, match=message):
        answers.check(how, attends=attends)


def test_what_can_be_is_not():
    Answers(4, alignments=True).check(HOW, attends=True)
    Answers(50).check(DRAWN, attends=False)
