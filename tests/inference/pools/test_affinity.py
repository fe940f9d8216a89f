"""The choice of a member."""

from collections import Counter

from inference.engine import GenerationRequest, Message
from inference.pools.affinity import BLOCK_LENGTH, affinity_key, choose_member, rank_members
from inference.pools.definitions import Member
from inference.remote.configuration import RemoteModel

KEYS = [str(number).encode() for number in range(4000)]


def member(name: str, weight: int = 1) -> Member:
    return Member(name, RemoteModel(id="big", base_url=f"http://{name}/v1"), weight)


def chat(*texts: str, user: str = "ada") -> GenerationRequest:
    roles = ["system", *["user", "assistant"] * len(texts)]
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))
    return GenerationRequest(request_id="r", messages=messages, user=user)


def test_all_turns_of_a_conversation_have_one_key_and_other_conversations_others():
    first = affinity_key(chat("Be brief.", "Hello"))

    assert affinity_key(chat("Be brief.", "Hello", "Hi", "How are you?")) == first
    assert affinity_key(chat("Be brief.", "Bye")) != first
    assert affinity_key(chat("Be long.", "Hello")) != first
    assert affinity_key(chat("Be brief.", "Hello", user="bob")) != first


def test_prompts_with_the_same_first_block_have_one_key():
    document = "a" * BLOCK_LENGTH
    one, two = (GenerationRequest(request_id="r", prompt=document + end) for end in ("Who?", "What?"))

    assert affinity_key(one) == affinity_key(two)
    assert affinity_key(one) != affinity_key(GenerationRequest(request_id="r", prompt="b" + document))
    ids = tuple(range(BLOCK_LENGTH))
    three, four = (GenerationRequest(request_id="r", prompt_ids=(*ids, end)) for end in (1, 2))
    assert affinity_key(three) == affinity_key(four)


def test_a_key_keeps_its_member_when_another_one_comes_or_goes():
    members = [member(name) for name in "abcdefgh"]
    before = {key: rank_members(key, members)[0].name for key in KEYS}

    fewer = {key: rank_members(key, members[1:])[0].name for key in KEYS}
    more = {key: rank_members(key, [*members, member("i")])[0].name for key in KEYS}

    assert {key for key in KEYS if fewer[key] != before[key]} == {key for key in KEYS if before[key] == "a"}
    assert {more[key] for key in KEYS if more[key] != before[key]} == {"i"}
    moved = sum(more[key] != before[key] for key in KEYS)
    assert 0.8 < moved / (len(KEYS) / 9) < 1.2


def test_members_get_keys_in_proportion_to_their_weights():
    members = [member("a", 1), member("b", 3)]

    shares = Counter(rank_members(key, members)[0].name for key in KEYS)

    assert 0.72 < shares["b"] / len(KEYS) < 0.78


def test_one_of_two_members_never_gets_the_whole_load():
    members = [member("a"), member("b")]
    loads: Counter[tuple[str, str]] = Counter()
    for _ in range(40):
        loads[choose_member(b"key", members, loads).key] += 1
    assert sorted(loads.values()) == [10, 30]
    assert choose_member(b"key", members[:1], {members[0].key: 40}) == members[0]


def test_a_loaded_member_gets_no_more_than_its_share_of_the_load():
    members = [member(name) for name in "abcd"]
    first, second = rank_members(b"key", members)[:2]

    assert choose_member(b"key", members, {}) == first
    assert choose_member(b"key", members, {first.key: 3}) == first
    assert choose_member(b"key", members, {first.key: 4}) == second
    busy = {one.key: 20 for one in members}
    assert choose_member(b"key", members, busy) == first
    assert choose_member(b"key", members, busy | {first.key: 80}) == second
