"""Whether a target's harness reads the gateway's base URL, over a fake tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.gateway_support import (
    MOST_BYTES,
    MOST_FILES,
    MOST_PARSED,
    MOST_PARSED_BYTES,
    find_gateway_support,
    require_gateway,
)
from runner_e2e.plan.objects import MAX_FILE_BYTES, Entry, Listing, MissingObjectError, hash_object
from runner_e2e.plan.transport import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT, ROOT, TESTS, HARNESS = (digit * 40 for digit in "0123")
FILE, LINK, DIRECTORY, SUBMODULE = 0o100644, 0o120000, 0o040000, 0o160000
NAME = "PAPERCLIP_E2E_GATEWAY_BASE_URL"
READS = f"export const url = () => process.env.{NAME};".encode()
COMMENT = f"// process.env.{NAME}\nexport const a = 1;".encode()


@dataclass
class FakeObjects:
    """A tree with one harness directory; `modes` and `sizes` are of its names."""

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    complete: bool = True
    tests: Mapping[str, Entry] = field(
        default_factory=lambda: {"runner-e2e": Entry(DIRECTORY, HARNESS)},
    )
    reads: int = 0

    def tree_of(self, commit: str) -> str:
        assert commit == COMMIT
        return ROOT

    def entries(self, tree: str) -> Listing:
        if tree == ROOT:
            return Listing({"tests": Entry(DIRECTORY, TESTS)})
        if tree == TESTS:
            return Listing(self.tests)
        return Listing({name: self.entry(name) for name in self.files}, self.complete)

    def entry(self, name: str) -> Entry:
        content = self.files[name]
        sha = hash_object("blob", content)
        return Entry(self.modes.get(name, FILE), sha, self.sizes.get(name, len(content)))

    def blob(self, entry: Entry) -> bytes:
        self.reads += 1
        name, content = next(one for one in self.files.items() if hash_object("blob", one[1]) == entry.sha)
        if name in self.gone:
            raise MissingObjectError("gone", "fetch")
        return content


def judge(files: Mapping[str, bytes | str], **options: Any) -> tuple[str, str]:  # noqa: ANN401 - fields of the fake
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    scan = find_gateway_support(FakeObjects(contents, **options), COMMIT)
    return scan.result, scan.reason


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"launch.ts": READS}, ("supported", "reads-variable"), id="property"),
        pytest.param(
            {"a.ts": f'const u = process.env["{NAME}"];'}, ("supported", "reads-variable"), id="key"
        ),
        pytest.param(
            {"a.ts": f"const {{ {NAME}: url }} = process.env; use(url);"},
            ("supported", "reads-variable"),
            id="pattern",
        ),
        pytest.param(
            {"a.ts": f'const name = "{NAME}"; const u = process.env[name];'},
            ("supported", "reads-variable"),
            id="constant",
        ),
        pytest.param(
            {
                "names.ts": f'export const URL_NAME = "{NAME}";',
                "use.ts": 'import { URL_NAME } from "./names.js"; const u = process.env[URL_NAME];',
            },
            ("supported", "reads-imported-name"),
            id="constant-of-another-file",
        ),
        pytest.param(
            {
                "names.ts": f'export const URL_NAME = "{NAME}";',
                "use.ts": 'import { URL_NAME } from "./names.js"; console.log(URL_NAME);',
            },
            ("unknown", "name-used-otherwise"),
            id="constant-that-is-only-shown",
        ),
        pytest.param(
            {"broken.ts": f"const {{ {NAME}", "a.ts": READS},
            ("supported", "reads-variable"),
            id="beside-one-that-is-broken",
        ),
        pytest.param({"a.ts": COMMENT}, ("unsupported", "not-read"), id="comment"),
        pytest.param({"a.ts": f"/* {NAME} */"}, ("unsupported", "not-read"), id="block-comment"),
        pytest.param({"a.ts": f"interface A {{ {NAME}?: string }}"}, ("unsupported", "not-read"), id="type"),
        pytest.param({"a.ts": f"env.{NAME} = url;"}, ("unsupported", "not-read"), id="write"),
        pytest.param({"a.ts": f"delete process.env.{NAME};"}, ("unsupported", "not-read"), id="delete"),
        pytest.param({"a.ts": f"process.env.{NAME}_2;"}, ("unsupported", "not-read"), id="longer-name"),
        pytest.param({"a.ts": b"export const a = 1;"}, ("unsupported", "not-named"), id="not-named"),
        pytest.param({}, ("unsupported", "not-named"), id="no-files"),
        pytest.param({"a.d.ts": READS}, ("unsupported", "not-named"), id="declarations"),
        pytest.param({"a.test.ts": READS}, ("unsupported", "not-named"), id="unit-test"),
        pytest.param({"a.spec.ts": READS}, ("supported", "reads-variable"), id="the-browser's-file"),
        pytest.param({"a.js": READS}, ("unsupported", "not-named"), id="no-typescript"),
        pytest.param({".ts": READS}, ("unsupported", "not-named"), id="no-name"),
        pytest.param({"a.ts": f"const {{ {NAME}"}, ("unknown", "syntax-error"), id="broken"),
        pytest.param({"a.ts": b"\xff" + READS}, ("unknown", "not-utf8"), id="not-utf8"),
        pytest.param({"a.ts": f'f("{NAME}");'}, ("unknown", "name-used-otherwise"), id="given-away"),
    ],
)
def test_only_code_of_the_harness_that_reads_the_variable_counts(
    files: Mapping[str, bytes | str], expected: tuple[str, str]
) -> None:
    assert judge(files) == expected


@pytest.mark.parametrize("mode", [LINK, SUBMODULE, DIRECTORY, 0], ids=["symlink", "submodule", "tree", "odd"])
def test_what_is_no_regular_file_does_not_count(mode: int) -> None:
    assert judge({"a.ts": READS}, modes={"a.ts": mode}) == ("unsupported", "not-named")


def test_what_cannot_be_read_is_unknown_unless_another_file_reads_the_variable() -> None:
    other = {"b.ts": b"export {};"}

    cases: list[tuple[dict[str, Any], str]] = [
        ({"gone": frozenset({"a.ts"})}, "file-unavailable"),
        ({"sizes": {"a.ts": MAX_FILE_BYTES + 1}}, "file-too-large"),
        ({"complete": False}, "files-unlisted"),
    ]
    for options, reason in cases:
        assert judge({"a.ts": COMMENT, **other}, **options) == ("unknown", reason)
        assert judge({"a.ts": COMMENT, "c.ts": READS}, **options) == ("supported", "reads-variable")


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        pytest.param({}, ("unsupported", "directory-missing"), id="missing"),
        pytest.param({"runner-e2e": Entry(LINK, HARNESS)}, ("unknown", "directory-symlink"), id="symlink"),
        pytest.param(
            {"runner-e2e": Entry(SUBMODULE, HARNESS)}, ("unknown", "directory-submodule"), id="module"
        ),
        pytest.param({"runner-e2e": Entry(FILE, HARNESS)}, ("unknown", "directory-file"), id="file"),
    ],
)
def test_without_a_harness_directory_nothing_is_supported(
    tests: Mapping[str, Entry], expected: tuple[str, str]
) -> None:
    assert judge({"a.ts": READS}, tests=tests) == expected


def test_the_number_and_size_of_files_are_bounded() -> None:
    many = {f"f{number:04}.ts": f"export const a = {number};".encode() for number in range(MOST_FILES + 9)}
    source = FakeObjects({**many, "zz.ts": READS})
    large = {
        f"f{number:04}.ts": b"//%06d\n" % number * 100_000 for number in range(MOST_BYTES // 900_000 + 1)
    }
    naming = {f"f{number:04}.ts": COMMENT + b"// %d" % number for number in range(MOST_PARSED + 1)}
    long = {
        f"f{number:04}.ts": COMMENT + b" " * 900_000 for number in range(MOST_PARSED_BYTES // 900_000 + 1)
    }

    scan = find_gateway_support(source, COMMIT)

    assert (scan.result, scan.reason, source.reads) == ("unknown", "too-many-files", MOST_FILES)
    assert judge({**large, "zz.ts": READS}) == ("unknown", "too-much-text")
    assert judge(naming) == ("unknown", "too-much-text")
    assert judge(long) == ("unknown", "too-much-text")


def test_the_evidence_names_the_files_that_name_the_variable() -> None:
    scan = find_gateway_support(FakeObjects({"a.ts": COMMENT, "b.ts": b"export {};", "c.ts": READS}), COMMIT)

    assert [(file.path, file.size) for file in scan.files] == [
        ("tests/runner-e2e/a.ts", len(COMMENT)),
        ("tests/runner-e2e/c.ts", len(READS)),
    ]


@settings(deadline=None, max_examples=80)
@given(
    st.dictionaries(
        st.sampled_from(["a.ts", "b.ts", "c.spec.ts"]),
        st.lists(
            st.sampled_from(
                [NAME, "process.env.", "`", "${", "}", '"', "//", "\n", "import ", "from './a'", "("]
            )
        ).map("".join),
    )
)
def test_any_sources_have_an_answer(files: dict[str, str]) -> None:
    result, reason = judge(files)

    assert result in {"supported", "unsupported", "unknown"}
    assert reason.replace("-", "").replace("8", "").isalpha()
    assert result != "supported" or any(NAME in text for text in files.values())


def test_a_limit_needs_a_target_that_declares_the_gateway() -> None:
    require_gateway(Scan("supported", "reads-variable"))

    for scan, words in (
        (Scan("unsupported", "not-read"), f"does not read {NAME} \\(not-read\\)"),
        (Scan("unknown", "syntax-error"), f"is not known to read {NAME} \\(syntax-error\\)"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            require_gateway(scan)
        assert caught.value.exit_code == 2
