"""Trials chosen by Optuna: a study that remembers what was tried, and what came out."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from attention.configuration.points import point
from attention.configuration.search_space import Choice, Real, SearchSpace, Whole
from attention.sweeping.board import Known
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.plan import Sweep, Trial, plan_trial
from attention.sweeping.standing import Standing, first_metric

POINT = "point"  # set once a trial's values are chosen
_CHOOSING = datetime.timedelta(seconds=60)  # after that, who was choosing is dead


class Search:
    """The board of a search space.

    The study's trials with a point are the trials of the sweep. One that is `RUNNING` there and
    that nobody claims is gone on with, by whoever comes first, in its run directory.

    Args:
      storage: an Optuna storage, which all workers share.
      name: of the study.
      wanted: the number of trials.
    """

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        name: str,
        sweep: Sweep,
        directory: SweepDirectory,
        *,
        wanted: int,
    ) -> None:
        assert sweep.space is not None
        self._wanted = wanted
        self._sweep = sweep
        self._space: SearchSpace = sweep.space
        self._directory = directory
        self._planned: dict[int, Trial] = {}
        self._study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            pruner=_pruner(self._space),
        )

    def known(self) -> Known:
        chosen = [self._plan(each) for each in self._slots() if POINT in each.user_attrs]
        first: dict[str, Trial] = {}
        for trial in chosen:
            first.setdefault(trial.name, trial)
        return Known(tuple(first.values()), max(0, self._wanted - len(chosen)))

    def _plan(self, frozen: FrozenTrial) -> Trial:
        if frozen.number not in self._planned:
            chosen = frozen.user_attrs[POINT]
            self._planned[frozen.number] = plan_trial(self._sweep, frozen.number, chosen)
        return self._planned[frozen.number]

    def _slots(self) -> list[FrozenTrial]:
        """The trials that count: chosen ones, and those that somebody is choosing."""
        now = datetime.datetime.now()
        slots = []
        for each in self._study.get_trials(deepcopy=False):
            started = each.datetime_start or now
            choosing = each.state == TrialState.RUNNING and now - started < _CHOOSING
            if POINT in each.user_attrs or choosing:
                slots.append(each)
            elif each.state == TrialState.RUNNING:
                self._tell(each.number, state=TrialState.FAIL)
        return slots

    def ask(self) -> Trial | None:
        if len(self._slots()) >= self._wanted:
            return None
        trial = self._study.ask()
        before = [each for each in self._slots() if each.number < trial.number]
        if len(before) >= self._wanted:  # another worker was faster
            self._tell(trial.number, state=TrialState.FAIL)
            return None
        # From the number alone, so that workers do not all begin with the same draws.
        self._study.sampler = _sampler(self._space, trial.number)
        chosen = self._space.parameters.items()
        try:
            made = point({key: _suggest(trial, key, range_) for key, range_ in chosen})
            trial.set_user_attr(POINT, made)
        except optuna.exceptions.UpdateFinishedTrialError:  # slow enough to be taken for dead
            return None
        return plan_trial(self._sweep, trial.number, made)

    def pruner(self, trial: Trial) -> Any:
        if self._space.pruning is None:
            return None
        frozen = self._study.get_trials(deepcopy=False)[trial.number]
        if frozen.state.is_finished():  # told as failed, and tried again: it takes no more scores
            return None
        handle = optuna.trial.Trial(self._study, frozen._trial_id)
        run = self._directory.run(trial)

        def prune(step: int, metrics: Mapping[str, float]) -> bool:
            name, _ = first_metric(run.read_result() or {})
            evaluations = len({row["step"] for row in run.eval_rows() if row["step"] <= step})
            try:
                handle.report(metrics[name], evaluations)
                return handle.should_prune()
            except optuna.exceptions.UpdateFinishedTrialError:  # another command has given it up
                return False

        return prune

    def settle(self, standings: Mapping[str, Standing]) -> None:
        frozen = self._study.get_trials(deepcopy=False)
        chosen = [each for each in frozen if POINT in each.user_attrs]
        known = {name for each in frozen if (name := each.user_attrs.get("again"))}
        for each in chosen:
            name = self._plan(each).name
            standing = standings.get(name)
            if standing is None or standing.open:
                continue
            if each.state == TrialState.RUNNING:
                self._tell_standing(each.number, standing)
            elif each.state == TrialState.FAIL and name not in known:
                self._tell_late(each, name, standing)

    def _tell_standing(self, number: int, standing: Standing) -> None:
        if standing.status == "complete" and standing.metric is not None:
            self._tell(number, standing.metric)
        elif standing.status == "pruned":
            self._tell(number, state=TrialState.PRUNED)
        elif standing.status in ("failed", "complete"):
            self._tell(number, state=TrialState.FAIL)

    def _tell_late(self, failed: FrozenTrial, name: str, standing: Standing) -> None:
        """A trial that has failed before and is complete now; a told one cannot be told again."""
        if standing.status == "complete" and standing.metric is not None:
            self._study.add_trial(
                create_trial(
                    params=failed.params,
                    distributions=failed.distributions,
                    value=standing.metric,
                    user_attrs={"again": name},
                )
            )

    def _tell(self, number: int, value: float | None = None, **more: Any) -> None:
        # Of several who have seen it end, one is first.
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self._study.tell(number, value, skip_if_finished=True, **more)


def _pruner(space: SearchSpace) -> optuna.pruners.BasePruner:
    if space.pruning is None:
        return optuna.pruners.NopPruner()
    return optuna.pruners.SuccessiveHalvingPruner(
        min_resource=space.pruning.first, reduction_factor=space.pruning.factor
    )


def _sampler(space: SearchSpace, number: int) -> optuna.samplers.BaseSampler:
    seed = (space.seed * 1_000_003 + number) % 2**32
    if space.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=space.startup, constant_liar=True)


def _suggest(trial: optuna.Trial, key: str, range_: Choice | Real | Whole) -> Any:
    if isinstance(range_, Choice):
        return trial.suggest_categorical(key, range_.values)
    if isinstance(range_, Real):
        return trial.suggest_float(key, range_.low, range_.high, log=range_.log)
    return trial.suggest_int(key, range_.low, range_.high, step=range_.step, log=range_.log)
