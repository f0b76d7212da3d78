"""Plans: every item once an epoch, the same for the same seed, in shapes that stay few."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.data.epochs import permutation
from attention.data.items import piece_items
from attention.data.plan import TrainPlan, eval_plan
from attention.errors import UserError

pytestmark = pytest.mark.fast

MAX_LENGTH = 32
lengths_strategy = st.lists(st.integers(0, MAX_LENGTH), min_size=1, max_size=60)


def make(lengths, **settings):
    chosen = {"seed": 0, "max_length": MAX_LENGTH, "rows": 4, "pack": True} | settings
    return TrainPlan(lengths, **chosen)


def lengths_of(number, seed=0):
    return np.random.default_rng(seed).integers(1, MAX_LENGTH + 1, number)


def batches(plan, number):
    return [plan.batch(step) for step in range(number)]


def items_of(planned):
    return [item for batch in planned for row in batch.rows for item in row]


@given(lengths_strategy, st.booleans(), st.integers(1, 3), st.integers(0, 2**70), st.data())
@settings(max_examples=60, deadline=None)
def test_each_epoch_holds_each_item_once(lengths, pack, epochs, seed, data):
    rows = data.draw(st.integers(1, 9))
    plan = make(lengths, pack=pack, rows=rows, seed=seed, epochs=epochs)
    steps = plan.steps_in_epochs(epochs)
    planned = batches(plan, steps)
    assert Counter(items_of(planned)) == dict.fromkeys(range(len(lengths)), epochs)
    for batch in planned:
        assert len(batch.rows) == rows
        assert all(sum(lengths[i] for i in row) <= batch.length for row in batch.rows)
        assert any(batch.rows), "a batch of padding only"
        assert pack or all(len(row) <= 1 for row in batch.rows)


@given(lengths_strategy, st.booleans(), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_two_plans_are_equal_step_by_step_in_any_order(lengths, pack, seed):
    first, second = (make(lengths, pack=pack, seed=seed) for _ in range(2))
    expected = batches(first, 12)
    for step in (11, 0, 7, 3, 11, 1):
        assert second.batch(step) == expected[step]


@pytest.mark.parametrize("pack", [True, False])
def test_seeds_and_epochs_are_in_different_orders(pack):
    lengths = lengths_of(200)
    plan = make(lengths, pack=pack)
    steps = plan.steps_in_epochs(1)
    first, second = items_of(batches(plan, steps)), items_of(batches(make(lengths, seed=1), steps))
    assert first != second
    later = items_of([plan.batch(step) for step in range(steps + 1, 2 * steps)])
    assert first[: len(later)] != later


def test_what_shares_a_row_changes_with_the_epoch():
    plan = make(lengths_of(200), rows=1)
    half = int(plan.steps_per_epoch) // 2
    first = {frozenset(plan.batch(step).rows[0]) for step in range(half)}
    later = {frozenset(plan.batch(step).rows[0]) for step in range(3 * half, 4 * half)}
    assert len(first & later) < half / 4


def test_the_packed_stream_goes_on_over_the_end_of_an_epoch():
    plan = make(lengths_of(50), rows=7)
    per_epoch = plan.steps_per_epoch
    assert per_epoch != int(per_epoch), "the epoch must end inside a batch"
    planned = batches(plan, 3 * int(per_epoch) + 2)
    assert all(all(batch.rows) for batch in planned), "no row is empty but the run's last"
    items = items_of(planned)
    assert sorted(items[:50]) == sorted(items[50:100]) == list(range(50))


def test_only_the_last_batch_of_a_run_is_filled_with_empty_rows():
    lengths = lengths_of(50)
    plan = make(lengths, rows=7, epochs=2)
    steps = plan.steps_in_epochs(2)
    *full, last = batches(plan, steps)
    assert all(all(batch.rows) for batch in full)
    assert not all(last.rows) and any(last.rows)
    # A longer run goes on beyond: the same batches up to there.
    assert batches(make(lengths, rows=7, epochs=5), steps - 1) == full
    assert make(lengths, rows=7, epochs=2).batch(steps + 3) == plan.batch(steps + 3)


@given(
    lengths_strategy,
    st.booleans(),
    st.lists(st.integers(1, 16), min_size=2, max_size=4, unique=True),
)
@settings(max_examples=60, deadline=None)
def test_raised_epochs_go_on_with_the_rows_that_were_left_out(lengths, pack, quarters):
    """The run ends at each of some epochs and is then made longer; in between it also stops."""
    ends, taken = (), []
    for epochs in (quarter / 4 for quarter in sorted(quarters)):
        plan = make(lengths, pack=pack, rows=3, epochs=epochs, past_ends=ends)
        total = plan.steps_in_epochs(epochs)
        assert batches(plan, len(taken)) == taken, "the past does not change"
        halfway = (len(taken) + total) // 2
        if halfway < total:
            ends = plan.ends_before(halfway)
            stopped = make(lengths, pack=pack, rows=3, epochs=epochs, past_ends=ends)
            assert batches(stopped, total) == batches(plan, total)
        taken = batches(plan, total)
        ends = plan.ends_before(total)
    assert make(lengths, pack=pack, rows=3, epochs=epochs, past_ends=ends).batch(0) == taken[0]
    for epoch in range(int(epochs)):
        seen = Counter(items_of(taken)[epoch * len(lengths) : (epoch + 1) * len(lengths)])
        assert seen == dict.fromkeys(range(len(lengths)), 1)


def test_a_run_that_stopped_before_its_end_is_the_longer_run_from_the_start():
    lengths = lengths_of(50)
    short = make(lengths, rows=7, epochs=2)
    steps = short.steps_in_epochs(2)
    assert short.ends_before(steps - 1) == ()
    assert len(short.ends_before(steps)) == 1
    longer = make(lengths, rows=7, epochs=5, past_ends=short.ends_before(steps - 1))
    assert longer.steps_in_epochs(5) == make(lengths, rows=7, epochs=5).steps_in_epochs(5)
    assert all(all(b.rows) for b in batches(longer, longer.steps_in_epochs(5) - 1))


@pytest.mark.parametrize("pack", [True, False])
def test_broken_epochs(pack):
    lengths = lengths_of(300)
    plan = make(lengths, pack=pack)
    whole = plan.steps_in_epochs(1)
    assert whole == pytest.approx(plan.steps_per_epoch, abs=1)
    assert plan.steps_in_epochs(0.5) == pytest.approx(whole / 2, abs=1)
    assert plan.steps_in_epochs(2.5) == pytest.approx(2.5 * whole, abs=3)
    assert plan.steps_in_epochs(1e-9) == 1


@pytest.mark.parametrize("pack", [True, False])
def test_shapes_are_few_and_known(pack):
    plan = make(lengths_of(300), pack=pack, rows=None, tokens=128)
    seen = {(len(b.rows), b.length) for b in batches(plan, 2 * plan.steps_in_epochs(1))}
    assert seen == set(plan.shapes)
    assert plan.shapes == ([(4, 32)] if pack else [(4, 32), (5, 24), (8, 16), (16, 8)])


def test_padding_is_what_no_item_fills():
    lengths = [8, 8, 8, 8, 30]
    assert make(lengths, rows=1).padding_fraction() == pytest.approx(1 - 62 / 64)
    # Unpacked: four rows of 8, and one row of 32 beside three empty ones.
    assert make(lengths, pack=False).padding_fraction() == pytest.approx(1 - 62 / (32 + 128))


def test_items_start_at_multiples():
    lengths = lengths_of(100)
    plan = make(lengths, start_multiple=8)
    for batch in batches(plan, 5):
        assert batch.start_multiple == 8
        for row in batch.rows:
            assert sum(-(-lengths[i] // 8) * 8 for i in row) <= MAX_LENGTH
    with pytest.raises(ValueError, match="start_multiple=5 must divide max_length=32"):
        make(lengths, start_multiple=5)
    make(lengths, start_multiple=5, pack=False)  # one item a row starts at 0


@pytest.mark.parametrize("pack", [True, False])
def test_rows_are_divisible_among_devices(pack):
    lengths = lengths_of(100)
    # Unpacked, the rows of a bucket are rounded; packed, there is but one number of rows.
    plan = make(lengths, pack=pack, rows=None, tokens=128 if pack else 96, multiple_of=4)
    assert all(len(b.rows) % 4 == 0 for b in batches(plan, 20))
    with pytest.raises(UserError, match=r"batch_size=6.*4"):
        make(lengths, pack=pack, rows=6, multiple_of=4)
    with pytest.raises(UserError, match=r"batch_tokens=96 makes 3 rows of .*=32.* over 4"):
        make(lengths, rows=None, tokens=96, multiple_of=4)


pairs_strategy = st.lists(
    st.tuples(st.integers(0, MAX_LENGTH), st.integers(0, MAX_LENGTH)), min_size=1, max_size=60
)


def pairs_of(number, seed=0):
    return np.random.default_rng(seed).integers(1, MAX_LENGTH + 1, (number, 2))


@given(pairs_strategy, st.booleans(), st.sampled_from([None, 1, 4]), st.sampled_from([1, 8]))
@settings(max_examples=60, deadline=None)
def test_each_epoch_holds_each_pair_once_and_rows_have_room_for_it(pairs, pack, slots, multiple):
    lengths = np.array(pairs)
    room = -(-lengths // multiple) * multiple if pack else lengths
    plan = make(pairs, pack=pack, slots=slots, start_multiple=multiple, epochs=2)
    planned = batches(plan, plan.steps_in_epochs(2))
    evaluated = eval_plan(
        pairs, rows=4, max_length=MAX_LENGTH, pack=pack, slots=slots, start_multiple=multiple
    )
    assert Counter(items_of(planned)) == dict.fromkeys(range(len(pairs)), 2)
    assert Counter(items_of(evaluated)) == dict.fromkeys(range(len(pairs)), 1)
    for batch in (*planned, *evaluated):
        assert batch.slots == (slots or 1 if pack else 1)
        for row in batch.rows:
            assert (room[list(row)].sum(axis=0) <= batch.length).all()
            assert len(row) <= (slots or len(row) if pack else 1)


@given(pairs_strategy, st.booleans(), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_plans_of_pairs_are_equal_step_by_step_in_any_order(pairs, pack, seed):
    first, second = (make(pairs, pack=pack, seed=seed, slots=4) for _ in range(2))
    expected = batches(first, 12)
    for step in (11, 0, 7, 3, 11, 1):
        assert second.batch(step) == expected[step]


def test_a_bucket_is_of_the_longest_stream():
    plan = make([(3, 20), (20, 3), (3, 3), (9, 2)], pack=False, rows=1)
    found = {batch.rows[0][0]: batch.length for batch in batches(plan, 4)}
    assert found == {0: 24, 1: 24, 2: 8, 3: 16}


def test_padding_of_pairs_is_over_both_streams():
    pairs = [(8, 16), (8, 16), (16, 0)]
    # One row of 32 holds all of them; unpacked there are two rows of 16 (four a batch).
    assert make(pairs, rows=1).padding_fraction() == pytest.approx(1 - 64 / 64)
    assert make(pairs, pack=False).padding_fraction() == pytest.approx(1 - 64 / (4 * 16 * 2))


@pytest.mark.parametrize("pack", [True, False])
def test_items_that_differ_by_epoch_count_through_the_epochs(pack):
    asked = []

    def lengths(epoch):
        asked.append(epoch)
        return pairs_of(30, seed=epoch)

    plan = make(lengths, pack=pack, slots=4, epochs=3)
    planned = batches(plan, plan.steps_in_epochs(3))
    assert sorted(items_of(planned)) == list(range(90))
    for batch in planned:
        for row in batch.rows:
            sizes = [pairs_of(30, seed=item // 30)[item % 30] for item in row]
            assert not row or (np.sum(sizes, axis=0) <= batch.length).all()
    assert set(asked) == {0, 1, 2}
    again = make(lengths, pack=pack, slots=4, epochs=3)
    assert again.batch(len(planned) - 2) == planned[-2]


def digest(planned):
    plain = [[int(b.length), b.start_multiple, [list(row) for row in b.rows]] for b in planned]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("pack", "multiple", "training", "evaluation"),
    [
        (True, 1, "f8b1c5253c44f46f", "271c5d14bb5280e7"),
        (True, 8, "925327f126835dbe", "79ae0e9d961c78b4"),
        (False, 1, "98767b05582b406c", "f2535eef260c98ff"),
    ],
)
def test_plans_of_one_stream_stay_what_they_were(pack, multiple, training, evaluation):
    """Frozen: another plan of the same data and seed would be another run."""
    lengths = np.random.PCG64(np.random.SeedSequence(7)).random_raw(300) % 33
    plan = make(lengths, seed=5, pack=pack, start_multiple=multiple, epochs=2.5)
    assert digest(batches(plan, plan.steps_in_epochs(2.5))) == training
    sizes = {"rows": 7, "max_length": MAX_LENGTH, "pack": pack, "start_multiple": multiple}
    assert digest(eval_plan(lengths, **sizes)) == evaluation


def test_what_cannot_be_planned():
    with pytest.raises(ValueError, match="no item"):
        make([])
    with pytest.raises(ValueError, match="33 positions must be within"):
        make([(3, 3), (3, 33)])
    with pytest.raises(ValueError, match="33 positions must be within 0 and max_length=32"):
        make([3, 33])


@given(
    lengths_strategy,
    st.booleans(),
    st.integers(1, 80),
    st.sampled_from([1, 2, 4]),
)
@settings(max_examples=60, deadline=None)
def test_evaluation_holds_every_item_once(lengths, pack, rows, devices):
    plan = eval_plan(lengths, rows=rows, max_length=MAX_LENGTH, pack=pack, multiple_of=devices)
    assert sorted(items_of(plan)) == list(range(len(lengths)))
    for batch in plan:
        assert len(batch.rows) % devices == 0
        assert all(sum(lengths[i] for i in row) <= batch.length for row in batch.rows)
        assert pack or all(len(row) <= 1 for row in batch.rows)
    # One shape a length, the partial last batch included: nothing is compiled for it.
    assert len({(len(b.rows), b.length) for b in plan}) == len({b.length for b in plan})


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("devices", [1, 4])
def test_seven_examples_in_batches_of_four(pack, devices):
    plan = eval_plan([30] * 7, rows=4, max_length=MAX_LENGTH, pack=pack, multiple_of=devices)
    assert [len(b.rows) for b in plan] == [4, 4]
    assert sorted(items_of(plan)) == list(range(7))


@pytest.mark.parametrize("pack", [True, False])
def test_a_batch_larger_than_the_set_is_no_larger_than_it(pack):
    plan = eval_plan([30] * 10, rows=4096, max_length=MAX_LENGTH, pack=pack, multiple_of=4)
    assert [len(b.rows) for b in plan] == [16]  # the next power of two
    assert sorted(items_of(plan)) == list(range(10))
    assert eval_plan([], rows=4096, max_length=MAX_LENGTH, pack=pack) == []
    with pytest.raises(ValueError, match="rows=0"):
        eval_plan([3], rows=0, max_length=MAX_LENGTH, pack=pack)


def test_a_small_token_budget_still_holds_the_long_examples():
    plan = make([2] * 10 + [1000], rows=None, tokens=50, pack=False, max_length=1000)
    planned = batches(plan, plan.steps_in_epochs(1))
    assert sorted(items_of(planned)) == list(range(11))
    assert {len(b.rows) for b in planned if b.length == 1000} == {1}


def test_rows_of_evaluation_do_not_depend_on_the_batch_size():
    lengths = piece_items(np.random.default_rng(1).integers(1, 90, 60), MAX_LENGTH)
    sizes = lengths[:, 2] - lengths[:, 1]
    plans = [eval_plan(sizes, rows=r, max_length=MAX_LENGTH, pack=True) for r in (1, 3, 64)]
    rows = [[row for batch in plan for row in batch.rows if row] for plan in plans]
    assert rows[0] == rows[1] == rows[2]


def test_orders_are_permutations_that_the_seeds_decide():
    orders = [tuple(permutation(50, *seeds)) for seeds in itertools.product((0, 1, -1), (0, 1))]
    assert len(set(orders)) == 6
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert permutation(50, 0, 1).tolist() == list(orders[1])
    assert permutation(5, 0).tolist() == [3, 2, 1, 0, 4], "bit for bit over versions of NumPy"


@pytest.mark.parametrize("max_length", [128, 256])
def test_rows_of_ewt_are_full(shared_data, max_length):
    from attention.data.conllu import read_conllu

    file = shared_data / "en_ewt" / "en_ewt-ud-train.conllu"
    lengths = [min(len(s.words), max_length) for s in read_conllu(file) if s.words]
    assert make(lengths, max_length=max_length).padding_fraction() < 0.05
