"""Secret keys of payloads, found by the types of handlers."""

import dataclasses
from datetime import date
from typing import Annotated, Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import pydantic
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
)
from pydantic.alias_generators import to_camel

from inboxd.api.chunks import EventChunk
from inboxd.api.payload import Envelope
from inboxd.api.secret_keys import WHOLE, secret_keys

T = TypeVar("T")
Pin = NewType("Pin", SecretStr)


class _Salary(Secret[int]):
    pass


class _Card(BaseModel):
    number: SecretStr
    owner: str
    replaced: "_Card | None" = None


class _Camel(BaseModel, alias_generator=to_camel):
    access_word: SecretStr


class _Aliased(BaseModel):
    a: SecretStr = Field(alias="first")
    b: SecretStr = Field(validation_alias=AliasChoices("second", AliasPath("deep", 0, "third")))
    c: str = Field(alias="harmless")


class _Listed(RootModel[list[SecretStr]]):
    pass


class _Held(BaseModel):
    words: _Listed


class _Box(BaseModel, Generic[T]):
    inside: T


@dataclasses.dataclass
class _Around(Generic[T]):
    many: list[T]
    again: "_Around[T] | None" = None


class _Tree(RootModel[dict[str, "_Tree | SecretStr"]]):
    pass


@dataclasses.dataclass
class _Plain:
    word: SecretBytes
    other: Annotated[SecretStr, Field(alias="renamed")]


@pydantic.dataclasses.dataclass
class _Checked:
    word: SecretStr = Field(alias="spelled")


class _Typed(TypedDict, total=False):
    word: SecretStr
    note: str


class _Pair(NamedTuple):
    left: int
    right: SecretStr


@dataclasses.dataclass
class _Unknown:
    word: "NobodyKnows"  # type: ignore[name-defined] # noqa: F821 - so it cannot be inspected


@pytest.mark.parametrize(
    ("payload", "keys"),
    [
        (_Card, {"number"}),
        (list[_Card] | None, {"number"}),
        (dict[str, tuple[_Card, ...]], {"number"}),
        (Annotated[_Card, Field(description="a card")], {"number"}),
        (Envelope[_Card], {"number"}),
        (EventChunk[_Card], {"number"}),
        (_Camel, {"access_word", "accessWord"}),
        (_Aliased, {"a", "first", "b", "second", "third"}),
        (_Held, {"words"}),
        (_Box[_Card], {"number"}),
        (_Box[SecretStr], {"inside"}),
        (_Box[dict[str, list[Pin]]], {"inside"}),
        (_Around[_Card], {"number"}),
        (_Around[SecretStr], {"many"}),
        (_Tree, {WHOLE}),
        (_Box[_Tree], {"inside"}),
        (_Plain, {"word", "other", "renamed"}),
        (_Checked, {"word", "spelled"}),
        (_Typed, {"word"}),
        (_Pair, {"right"}),
        (_Box[_Salary], {"inside"}),
        (_Box[Secret[date]], {"inside"}),
        (SecretStr, {WHOLE}),
        (_Listed, {WHOLE}),
        (dict[str, SecretStr], {WHOLE}),
        (_Unknown, {WHOLE}),
        (dict[str, Any], set()),
        (Any, set()),
        (int | None, set()),
    ],
)
def test_secret_keys_are_found(payload: Any, keys: set[str]) -> None:
    assert secret_keys(payload) == keys
