"""From items to arrays, and an iterator that goes on where it was left."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from attention.data.pipeline import assemble, eval_batches, train_iterator
from attention.data.plan import PlannedBatch, TrainPlan, eval_plan
from attention.data.streams import Stream

LENGTHS = np.random.default_rng(0).integers(0, 17, 90)
STREAMS = (Stream("tokens", fill={"labels": -1}),)
PAIRS = (Stream("source"), Stream("target", fill={"labels": -1}), Stream("examples", one_each=True))


def encode(item: int) -> dict[str, dict[str, np.ndarray]]:
    """Words that tell item and place, so that a batch tells what it was made of."""
    place = np.arange(LENGTHS[item], dtype=np.int32)
    words = 100 * (item + 1) + place
    chars = np.stack([words, place + 1], axis=1)
    return {"tokens": {"words": words, "labels": place, "chars": chars}}


def tokens(**arrays: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    return {"tokens": arrays}


def make_plan(*, pack=True, rows=4, **settings):
    return TrainPlan(LENGTHS, seed=3, max_length=16, rows=rows, pack=pack, **settings)


def make_iterator(plan=None, **settings):
    chosen = {"streams": STREAMS, "num_steps": 60} | settings
    return train_iterator(encode, plan or make_plan(), **chosen)


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for stream in first:
        assert first[stream].keys() == second[stream].keys()
        for key, array in first[stream].items():
            assert array.dtype == second[stream][key].dtype
            np.testing.assert_array_equal(array, second[stream][key], err_msg=key)


def joined(blocks):
    """The rows of several processes as one batch."""
    return {
        stream: {key: np.concatenate([block[stream][key] for block in blocks]) for key in arrays}
        for stream, arrays in blocks[0].items()
    }


@pytest.mark.fast
def test_assemble():
    items = [
        tokens(words=np.array([7, 8], np.int32), labels=np.array([0, 1], np.int32)),
        tokens(words=np.array([9], np.int32), labels=np.array([2], np.int32)),
    ]
    laid = assemble([items, []], PlannedBatch(4, ((0, 1), ())), STREAMS)["tokens"]
    assert laid["words"].tolist() == [[7, 8, 9, 0], [0, 0, 0, 0]]
    assert laid["labels"].tolist() == [[0, 1, 2, -1], [-1, -1, -1, -1]]
    assert laid["segment_ids"].tolist() == [[1, 1, 2, 0], [0, 0, 0, 0]]
    assert laid["positions"].tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert {array.dtype for array in laid.values()} == {np.dtype(np.int32)}


@pytest.mark.fast
def test_assemble_at_multiples_with_further_axes_and_empty_items():
    sizes = ((3, 5), (0, 6), (2, 7))
    items = [tokens(chars=np.full((n, 2), value, np.int16)) for n, value in sizes]
    planned = PlannedBatch(8, ((0, 1, 2),), start_multiple=4)
    laid = assemble([items], planned, STREAMS)["tokens"]
    assert laid["chars"][0, :, 1].tolist() == [5, 5, 5, 0, 7, 7, 0, 0]
    assert laid["segment_ids"].tolist() == [[1, 1, 1, 0, 3, 3, 0, 0]]
    assert laid["positions"].tolist() == [[0, 1, 2, 0, 0, 1, 0, 0]]
    assert laid["chars"].dtype == np.int16


def pair(source, target, label):
    return {
        "source": {"ids": np.array(source, np.int32)},
        "target": {"labels": np.array(target, np.int32)},
        "examples": {"label": np.array([label], np.int32)},
    }


@pytest.mark.fast
def test_pairs_share_rows_and_segments_in_all_streams():
    items = [pair([5, 6], [1], 7), pair([], [2, 3], 8), pair([9], [4, 4], 9)]
    planned = PlannedBatch(8, ((0, 1, 2), ()), start_multiple=2, slots=4)
    laid = assemble([items, []], planned, PAIRS)
    assert laid["source"]["ids"].tolist() == [[5, 6, 9, 0, 0, 0, 0, 0], [0] * 8]
    assert laid["source"]["segment_ids"].tolist() == [[1, 1, 3, 0, 0, 0, 0, 0], [0] * 8]
    assert laid["source"]["positions"].tolist() == [[0, 1, 0, 0, 0, 0, 0, 0], [0] * 8]
    assert laid["target"]["labels"].tolist() == [[1, -1, 2, 3, 4, 4, -1, -1], [-1] * 8]
    assert laid["target"]["segment_ids"].tolist() == [[1, 0, 2, 2, 3, 3, 0, 0], [0] * 8]
    # Entry m is of segment m + 1, wherever items of tokens start.
    assert laid["examples"]["label"].tolist() == [[7, 8, 9, 0], [0] * 4]
    assert laid["examples"]["segment_ids"].tolist() == [[1, 2, 3, 0], [0] * 4]
    assert laid["examples"]["positions"].tolist() == [[0] * 4] * 2


@pytest.mark.fast
def test_one_pair_a_row_has_one_label():
    items = [[pair([5, 6], [1], 7)], [pair([4], [1, 2], 8)]]
    laid = assemble(items, PlannedBatch(2, ((0,), (1,))), PAIRS)
    assert laid["source"]["ids"].tolist() == [[5, 6], [4, 0]]
    assert laid["target"]["labels"].tolist() == [[1, -1], [1, 2]]
    assert laid["examples"]["label"].tolist() == [[7], [8]]
    assert laid["examples"]["segment_ids"].tolist() == [[1], [1]]


@pytest.mark.fast
def test_a_stream_without_arrays_tells_where_whole_examples_go():
    items = [{name: arrays for name, arrays in pair([5], [1], 7).items() if name != "examples"}] * 3
    laid = assemble([items], PlannedBatch(8, ((0, 1, 2),), slots=4), PAIRS)
    assert laid["examples"].keys() == {"segment_ids", "positions"}
    assert laid["examples"]["segment_ids"].tolist() == [[1, 2, 3, 0]]


@pytest.mark.fast
def test_what_does_not_fit_is_refused():
    words = tokens(words=np.zeros(3, np.int32))
    message = "row 1 holds 6 positions of stream 'tokens', its length is 5"
    with pytest.raises(ValueError, match=message):
        assemble([[words], [words, words]], PlannedBatch(5, ((0,), (1, 2))), STREAMS)
    with pytest.raises(ValueError, match="row 0 holds 3 positions of stream 'examples'"):
        assemble([[pair([1], [1], 1)] * 3], PlannedBatch(5, ((0, 1, 2),), slots=2), PAIRS)
    wrong = tokens(words=np.zeros(3, np.int32), labels=np.zeros(2))
    with pytest.raises(ValueError, match="differ in length"):
        assemble([[wrong]], PlannedBatch(5, ((0,),)), STREAMS)
    with pytest.raises(ValueError, match="template"):
        assemble([[]], PlannedBatch(5, ((),)), STREAMS)
    filled = (Stream("tokens", fill={"words": 9}),)
    laid = assemble([[]], PlannedBatch(5, ((),)), filled, template=words)
    assert laid["tokens"]["words"].tolist() == [[9] * 5]


@pytest.mark.parametrize("pack", [True, False])
def test_batches_hold_what_the_plan_says(pack):
    plan = make_plan(pack=pack)
    for step, streams in enumerate(make_iterator(plan, num_steps=30)):
        planned, batch = plan.batch(step), streams["tokens"]
        assert batch["words"].shape == (4, planned.length)
        for row, ids in enumerate(planned.rows):
            for segment, item in enumerate(ids, start=1):
                where = batch["segment_ids"][row] == segment
                expected = encode(item)["tokens"]
                np.testing.assert_array_equal(batch["words"][row, where], expected["words"])
                np.testing.assert_array_equal(batch["positions"][row, where], expected["labels"])
        padding = batch["segment_ids"] == 0
        assert (batch["labels"][padding] == -1).all() and (batch["words"][padding] == 0).all()
    assert step == 29


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("threads", [0, 3])
def test_an_iterator_goes_on_where_its_state_was_taken(pack, threads):
    plan = make_plan(pack=pack)
    per_epoch = int(plan.steps_per_epoch)
    whole = list(make_iterator(plan, threads=threads))
    assert 2 * per_epoch < len(whole) == 60
    # In the middle of an epoch, over its end, within a later one, and at the very ends.
    for taken in (0, 1, per_epoch - 1, per_epoch, per_epoch + 1, 2 * per_epoch, 59, 60):
        before = make_iterator(make_plan(pack=pack), threads=threads)
        for _ in range(taken):
            next(before)
        state = json.loads(json.dumps(before.get_state()))
        after = make_iterator(make_plan(pack=pack), threads=threads)
        after.set_state(state)
        rest = list(after)
        assert len(rest) == 60 - taken
        for got, expected in zip(rest, whole[taken:], strict=True):
            assert_equal(got, expected)


def test_an_iterator_can_be_set_back():
    iterator = make_iterator()
    first = [next(iterator) for _ in range(5)]
    state = iterator.get_state()
    again = [next(iterator) for _ in range(5)]
    iterator.set_state(state)
    for batch in again:
        assert_equal(next(iterator), batch)
    assert not np.array_equal(first[0]["tokens"]["words"], again[0]["tokens"]["words"])


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("process_count", [2, 4])
def test_processes_share_the_same_global_batch(pack, process_count):
    plan = make_plan(pack=pack)
    parts = [
        make_iterator(plan, num_steps=25, process_index=i, process_count=process_count)
        for i in range(process_count)
    ]
    for whole, *blocks in zip(make_iterator(plan, num_steps=25), *parts, strict=True):
        assert_equal(joined(blocks), whole)


def test_rows_that_cannot_be_shared_are_refused():
    with pytest.raises(ValueError, match="process_count=3 must divide the 4 rows"):
        next(make_iterator(process_count=3))


@pytest.mark.fast
@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 4096])
def test_evaluation_sees_every_position_once(pack, rows):
    plan = eval_plan(LENGTHS, rows=rows, max_length=16, pack=pack)
    words = [
        batch["tokens"]["words"][batch["tokens"]["segment_ids"] > 0]
        for _, batch in eval_batches(encode, plan, streams=STREAMS)
    ]
    expected = [encode(item)["tokens"]["words"] for item in range(len(LENGTHS))]
    assert sorted(np.concatenate(words)) == sorted(np.concatenate(expected))


@pytest.mark.fast
def test_evaluation_of_two_processes_joins_to_that_of_one():
    plan = eval_plan(LENGTHS, rows=4, max_length=16, pack=True, multiple_of=2)
    whole = eval_batches(encode, plan, streams=STREAMS)
    halves = [
        eval_batches(encode, plan, streams=STREAMS, process_index=i, process_count=2)
        for i in (0, 1)
    ]
    for (planned, batch), (_, first), (same, second) in zip(whole, *halves, strict=True):
        assert planned == same
        assert_equal(joined([first, second]), batch)
    assert list(eval_batches(encode, [], streams=STREAMS)) == []


def test_it_works_where_no_flags_were_parsed(repository):
    program = (
        "import numpy as np\n"
        "from attention.data.pipeline import train_iterator\n"
        "from attention.data.plan import TrainPlan\n"
        "from attention.data.streams import Stream\n"
        "plan = TrainPlan([3, 2], seed=0, max_length=8, rows=2, pack=True)\n"
        "encode = lambda item: {'tokens': {'words': np.arange(3 - item)}}\n"
        "batches = train_iterator(encode, plan, streams=(Stream('tokens'),), num_steps=5)\n"
        "ids = [batch['tokens']['segment_ids'] for batch in batches]\n"
        "print(sum(int(each.astype(bool).sum()) for each in ids))\n"
        "import sys; print(sorted({'tensorflow', 'torch'} & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, timeout=120
    )
    assert (result.stdout, result.stderr, result.returncode) == ("50\n[]\n", "", 0)
