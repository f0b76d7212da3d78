"""Configs: loading, overriding, checking, saving and comparing them."""

from attention.configuration.arguments import merge_arguments, parse_argument
from attention.configuration.attention_sections import attention_sections
from attention.configuration.check import check
from attention.configuration.differences import Difference, continue_with, differences
from attention.configuration.durations import steps
from attention.configuration.implementation import choose_implementation
from attention.configuration.load import load_config, load_module
from attention.configuration.numbers import program_of, same_program
from attention.configuration.resolve import resolve
from attention.configuration.saved import config_hash, from_json, in_hash, read_saved, to_json

__all__ = [
    "Difference",
    "attention_sections",
    "check",
    "choose_implementation",
    "config_hash",
    "continue_with",
    "differences",
    "from_json",
    "in_hash",
    "load_config",
    "load_module",
    "merge_arguments",
    "parse_argument",
    "program_of",
    "read_saved",
    "resolve",
    "same_program",
    "steps",
    "to_json",
]
