"""ListOps: trees by their definition, their figures, and the published format."""

import statistics

import numpy as np
import pytest

from longwave.core.progress import SILENT
from longwave.core.random import numbered_bits
from longwave.tasks.tokens import listops
from longwave.tasks.tokens.listops import draw, in_order, make, read, sizes, trees, values, written

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


# The definition, one node after the other


def mix(state):
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & MASK
    return state ^ (state >> 31)


def tree(key, depth=1):
    """A digit, or an operator with its arguments."""
    low = key & 0xFFFFFFFF
    if depth == 10 or key >> 62:
        return low * 10 >> 32
    count = 2 + (low * 9 >> 32)
    operator = ("[MIN", "[MAX", "[MED", "[SM")[key >> 60 & 3]
    return operator, [tree(mix((key + (k + 1) * GOLDEN) & MASK), depth + 1) for k in range(count)]


def root(seed, number):
    return tree(mix((mix((seed + GOLDEN) & MASK) + (number + 1) * GOLDEN) & MASK))


def tokens_of(node):
    if isinstance(node, int):
        return [str(node)]
    return [node[0], *(token for child in node[1] for token in tokens_of(child)), "X"]


def value_of(node):
    if isinstance(node, int):
        return node
    operator, arguments = node[0], [value_of(child) for child in node[1]]
    if operator == "[MED":
        return int(statistics.median(arguments))
    return {"[MIN": min, "[MAX": max, "[SM": lambda values: sum(values) % 10}[operator](arguments)


def pairs_of(node):
    """With the parentheses of the published files."""
    if isinstance(node, int):
        return str(node)
    text = node[0]
    for argument in [*map(pairs_of, node[1]), "]"]:
        text = f"( {text} {argument} )"
    return text


def depth_of(node):
    return 0 if isinstance(node, int) else 1 + max(map(depth_of, node[1]))


@pytest.fixture(scope="module")
def drawn():
    """The first trees of two seeds, by the definition."""
    return {seed: [root(seed, number) for number in range(400)] for seed in (0, 2**63 + 5)}


@pytest.mark.parametrize("seed", [0, 2**63 + 5])
def test_trees_drawn_level_by_level_are_those_of_the_definition(seed, drawn):
    levels = draw(numbered_bits(seed, np.arange(400)))
    size = sizes(levels)
    assert size[0].tolist() == [len(tokens_of(node)) for node in drawn[seed]]
    assert values(levels).tolist() == [value_of(node) for node in drawn[seed]]
    found = iter(in_order(levels, size).tolist())
    names = [*"0123456789", "X", *(operator for operator in listops.OPERATORS for _ in range(9))]
    for node in drawn[seed]:
        assert [names[next(found)] for _ in tokens_of(node)] == tokens_of(node)


def test_the_trees_that_are_kept_are_those_of_501_to_1999_tokens(drawn):
    kept = [node for node in drawn[0] if 500 < len(tokens_of(node)) < 2000]
    assert len(kept) > 20
    for node, (tokens, value) in zip(kept, trees(0), strict=False):
        assert written(tokens) == pairs_of(node)
        assert value == value_of(node)


def test_lists_are_written_as_nested_pairs():
    for text, node in (
        ("( ( ( [MAX 3 ) 4 ) ] )", ("[MAX", [3, 4])),
        ("( ( ( [SM ( ( ( [MED 2 ) 3 ) ] ) ) 9 ) ] )", ("[SM", [("[MED", [2, 3]), 9])),
    ):
        assert pairs_of(node) == text
        assert listops.pieces(text) == tokens_of(node) == listops.pieces(text.replace("(", "").replace(")", ""))
    assert value_of(("[SM", [("[MED", [2, 3]), 9])) == 1


def test_the_figures_of_a_sample_are_those_of_the_set():
    """Of 1.3 million trees that were drawn with random.random: 8.27 % kept, of 1,034 tokens on average (deviation 394),
    quartiles 702, 952 and 1,310. Bounds are four standard errors of 2,000 trees.
    """
    count, kept, lengths, labels, lists = 2000, trees(7), [], [], []
    for _ in range(count):
        tokens, value = next(kept)
        lengths.append(len(tokens))
        labels.append(value)
        lists.append(int((tokens == listops.CLOSE).sum()))
    assert abs(np.mean(lengths) - 1034) < 4 * 394 / count**0.5
    assert np.abs(np.quantile(lengths, [0.25, 0.5, 0.75]) - [702, 952, 1310]).max() < 60
    assert min(lengths) > 500
    assert max(lengths) < 2000
    assert abs(np.mean(lists) - 147) < 6
    share = np.bincount(labels, minlength=10) / count
    assert all(0.13 < share[digit] < 0.21 for digit in (0, 9))
    assert all(0.05 < share[digit] < 0.12 for digit in range(1, 9))
    size = sizes(draw(numbered_bits(7, np.arange(20_000))))[0]
    assert abs(np.mean((size > 500) & (size < 2000)) - 0.0827) < 0.008


def test_lists_are_nested_nine_deep_at_most(drawn):
    assert max(map(depth_of, drawn[0])) == 9


# Files


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listops")
    make(folder, 60, 3, SILENT)
    return folder


def test_files_have_a_header_and_the_split_of_the_benchmark(made):
    assert {file.name for file in made.iterdir()} == {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"}
    rows = {}
    for name in ("train", "val", "test"):
        head, *rows[name] = (made / f"basic_{name}.tsv").read_text().splitlines()
        assert head == "Source\tTarget"
    assert {name: len(lines) for name, lines in rows.items()} == {"train": 58, "val": 1, "test": 1}
    assert len({line for lines in rows.values() for line in lines}) == 60


def test_the_same_seed_makes_the_same_files_and_another_others(made, tmp_path):
    for name, seed in (("same", 3), ("other", 4)):
        (tmp_path / name).mkdir()
        make(tmp_path / name, 60, seed, SILENT)
        same = [(tmp_path / name / file).read_bytes() == (made / file).read_bytes() for file in listops.FILES.values()]
        assert same == [seed == 3] * 3


def test_what_was_written_is_read_again(made):
    for split, (start, stop) in {"train": (0, 58), "valid": (58, 59), "test": (59, 60)}.items():
        found = read(made / listops.FILES[split], most=2000, progress=SILENT)
        ahead = [pair for pair, _ in zip(trees(3), range(stop), strict=False)][start:]
        assert found.lengths.tolist() == [len(tokens) for tokens, _ in ahead]
        assert found.labels.tolist() == [value for _, value in ahead]
        names = [listops.TOKENS[code] for code in found.codes.tolist()]
        assert names == [token for tokens, _ in ahead for token in listops.pieces(written(tokens))]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_may_end_either_way_and_trees_are_cut(end, tmp_path):
    path = tmp_path / "basic_test.tsv"
    lines = ["Source\tTarget", "( ( ( [MAX 3 ) 4 ) ] )\t4", "( ( ( ( [MIN 3 ) 4 ) 0 ) ] )\t0"]
    path.write_text(end.join([*lines, ""]), newline="")
    found = read(path, most=4, progress=SILENT)
    assert [listops.TOKENS[code] for code in found.codes] == ["[MAX", "3", "4", "X", "[MIN", "3", "4", "0"]
    assert (found.lengths.tolist(), found.labels.tolist()) == ([4, 4], [4, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the header"),
        ("a\tb\n", "expected the header b'Source.tTarget', got b'a.tb'"),
        ("Source\tTarget\n", "expected expressions below the header, got none"),
        ("Source\tTarget\n( ( [AVG 3 ) ] )\t3\n", "line 2: expected an expression of 0 1 .* got b'.*AVG"),
        ("Source\tTarget\n( ( [MAX 3 ) ] )\n", "line 2: expected an expression"),
        ("Source\tTarget\n( ( [MAX 3 ) ] )\t10\n", "line 2: expected an expression"),
        ("Source\tTarget\n\t1\n", "line 2: expected an expression"),
    ],
)
def test_what_is_no_such_file_is_refused(text, message, tmp_path):
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "x.tsv", most=100, progress=SILENT)


def test_too_few_trees_for_three_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="count: expected at least 3 trees, one in each file, got 2"):
        make(tmp_path, 2, 0, SILENT)
