"""Other names of hidden content: hard links, bind mounts and overlays."""

import os
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box, Identity, Step
from kernel.programs.kernel_calls import MS_BIND, MS_REC
from kernel.results import outcomes

pytestmark = pytest.mark.kernel

mounting = pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)

PRIVATE: Step = ("unshare-mounts",)


def bind(source: Path | str, target: Path | str, *, flags: int = 0) -> Step:
    return ("mount", str(source), str(target), "", MS_BIND | flags, "")


# Hard links.


@pytest.mark.denies
def test_a_hard_link_out_of_a_hidden_tree_is_refused_when_asked_for(box: Box) -> None:
    """S-04a: the scan is the harness's, once; without it a launch does not look."""
    os.link(box.secret, box.ok / "link")

    refusal = box.refuses("hard-link-alias", *box.options, "--scan-aliases")
    assert refusal.path == str(box.secret)
    assert box.allows(("read", box.ok / "link")) == [SECRET]


@pytest.mark.denies
def test_a_single_hidden_file_with_a_second_name_is_always_refused(box: Box) -> None:
    """S-04a."""
    os.link(box.secret, box.ok / "link")

    refusal = box.refuses("hard-link-alias", "--hide", box.secret)
    assert refusal.path == str(box.secret)
    box.refuses("hard-link-alias", "--hide-optional", box.secret)


@pytest.mark.denies
def test_a_link_deep_in_the_tree_is_found(box: Box) -> None:
    deep = box.hid / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "s").write_text(SECRET)
    os.link(deep / "s", box.root / "elsewhere")

    refusal = box.refuses("hard-link-alias", "--hide", box.hid, "--scan-aliases")
    assert refusal.path == str(deep / "s")


@pytest.mark.denies
def test_a_link_into_the_exposed_part_is_a_name_outside(box: Box) -> None:
    os.link(box.secret, box.own / "link")

    box.refuses("hard-link-alias", *box.options, "--scan-aliases")


@pytest.mark.denies
def test_a_file_whose_every_name_is_hidden_is_no_alias(box: Box) -> None:
    (box.root / "two").mkdir()
    os.link(box.secret, box.hid / "second")
    os.link(box.secret, box.root / "two" / "third")
    hiding = box.hiding(box.hid, box.root / "two", expose=[box.own])
    scanning = hiding.with_options(*hiding.options, "--scan-aliases")

    scanning.denies(("read", box.secret), ("read", box.root / "two" / "third"))
    box.refuses("hard-link-alias", *box.options, "--scan-aliases")


def test_links_among_exposed_files_are_the_agents_own(box: Box) -> None:
    os.link(box.own / "mine", box.own / "again")

    assert box.with_options(*box.options, "--scan-aliases").run("true").status == 0


@pytest.mark.denies
@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
def test_a_tree_that_cannot_be_scanned_is_refused_when_a_scan_was_asked_for(box: Box) -> None:
    (box.hid / "closed").mkdir()
    box.take_ownership()
    (box.hid / "closed").chmod(0)

    box.refuses("hard-link-alias", *box.options, "--scan-aliases")


# Mounts. Each test has a mount namespace of its own, which ends with its processes.


@pytest.mark.denies
@mounting
@pytest.mark.parametrize(
    ("source", "point", "secret"),
    [
        pytest.param("hid", "ok/alias", "secret", id="directory"),
        pytest.param(".", "ok/alias", "hid/secret", id="parent-within-itself"),
        pytest.param("deep", "ok/alias", "hid/secret", id="parent"),
        pytest.param("hid/sub", "ok/alias", "s", id="child"),
        pytest.param("hid", "alias", "secret", id="sibling"),
        pytest.param("hid", "ok/a b", "secret", id="blank"),
        pytest.param("hid", "ok/new\nline\t\\040#", "secret", id="escapes"),
        pytest.param("hid", "ok/\udcff", "secret", id="bytes"),
        pytest.param("hid", "hid/own/alias", "secret", id="exposed"),
    ],
)
def test_a_bind_mount_of_hidden_content_is_hidden_too(box: Box, source: str, point: str, secret: str) -> None:
    """S-41: or the launch is refused, naming the mount point; the content never shows."""
    for directory, name in ((box.hid / "sub", "s"), (box.root / "deep" / "hid", "secret")):
        directory.mkdir(parents=True)
        (directory / name).write_text(SECRET)
    hiding = box.with_options(*box.options, "--hide", box.root / "deep" / "hid")
    alias = Path(f"{box.root}/{point}")
    alias.mkdir()
    stage = [PRIVATE, bind(f"{box.root}/{source}", alias)]

    never_shows(hiding, stage, alias / secret, alias)


def never_shows(box: Box, stage: list[Step], secret: Path, alias: Path) -> None:
    """Assert that a launch either denies `secret` or refuses, naming a place at the alias."""
    control = box.act(("read", secret), sandboxed=False, stage=stage)[0]
    assert control.value == SECRET, control
    result = box.run(*box.acting(("read", secret)), stage=stage)
    if result.status == 125:
        refusal = result.refusal("mount-alias")
        assert refusal.path is not None
        assert str(alias) in refusal.message + refusal.path
    else:
        assert [outcome.error for outcome in outcomes(result)] == ["EACCES"]
        assert any(
            path == alias or path.is_relative_to(alias) or alias.is_relative_to(path)
            for path in box.explain(stage=stage).hidden
        )


@pytest.mark.denies
@mounting
def test_a_bind_mount_of_a_single_hidden_file_is_hidden_too(box: Box) -> None:
    """S-41: this is how a container hands single files on."""
    (box.ok / "alias").touch()
    stage = [PRIVATE, bind(box.secret, box.ok / "alias")]

    never_shows(box, stage, box.ok / "alias", box.ok / "alias")
    never_shows(box.hiding(box.secret), stage, box.ok / "alias", box.ok / "alias")


@pytest.mark.denies
@mounting
def test_a_recursive_bind_of_the_root_is_hidden_in_the_same_places(box: Box) -> None:
    """S-41."""
    (box.ok / "slash").mkdir()
    stage = [PRIVATE, bind("/", box.ok / "slash", flags=MS_REC)]
    secret = Path(f"{box.ok}/slash{box.secret}")

    never_shows(box, stage, secret, box.ok / "slash")


@pytest.mark.denies
@mounting
def test_an_alias_of_an_alias_is_hidden_too(box: Box) -> None:
    """S-41."""
    for name in ("first", "second"):
        (box.ok / name).mkdir()
    stage = [PRIVATE, bind(box.hid, box.ok / "first"), bind(box.ok / "first", box.ok / "second")]

    for name in ("first", "second"):
        never_shows(box, stage, box.ok / name / "secret", box.ok / name)


@pytest.mark.denies
@mounting
@pytest.mark.parametrize("hidden_layer", ["lower", "second lower", "upper"])
def test_an_overlay_with_a_hidden_layer_is_hidden_too(box: Box, hidden_layer: str) -> None:
    """S-41."""
    for name in ("low er", "up", "work", "ok/merged"):
        (box.root / name).mkdir()
    lower, upper = box.hid, box.root / "up"
    if hidden_layer == "upper":
        lower, upper = box.root / "low er", box.hid
    lowers = f"{box.root}/low er:{lower}" if hidden_layer == "second lower" else str(lower)
    data = f"lowerdir={lowers},upperdir={upper},workdir={box.root / 'work'}"
    merged = box.ok / "merged"
    stage = [PRIVATE, ("mount", "overlay", str(merged), "overlay", 0, data)]

    never_shows(box, stage, merged / "secret", merged)


@pytest.mark.denies
@mounting
@pytest.mark.parametrize("name", ["a b", "a,b", "a:b", "new\nline", "a\\b", "a=b#", "ünï"])
def test_an_overlay_with_a_layer_of_an_awkward_name_is_hidden_too(box: Box, name: str) -> None:
    """S-41: the options of a mount are written with two kinds of escapes."""
    layer, merged = box.root / name, box.ok / "merged"
    layer.mkdir()
    merged.mkdir()
    (layer / "s").write_text(SECRET)
    spelled = "".join(f"\\{letter}" if letter in "\\:," else letter for letter in str(layer))
    data = f"lowerdir={spelled}:{box.own}"
    stage = [PRIVATE, ("mount", "overlay", str(merged), "overlay", 0, data)]

    never_shows(box.hiding(layer), stage, merged / "s", merged)


@pytest.mark.denies
@mounting
def test_an_overlay_over_the_parent_of_a_hidden_directory_is_hidden_in_part(box: Box) -> None:
    """S-41: the rest of the overlay may stay visible."""
    for name in ("low/in", "low/beside", "other"):
        (box.root / name).mkdir(parents=True)
    (box.root / "low" / "in" / "s").write_text(SECRET)
    (box.ok / "merged").mkdir()
    data = f"lowerdir={box.root / 'low'}:{box.root / 'other'}"
    stage = [PRIVATE, ("mount", "overlay", str(box.ok / "merged"), "overlay", 0, data)]
    hiding = box.hiding(box.root / "low" / "in")

    never_shows(hiding, stage, box.ok / "merged" / "in" / "s", box.ok / "merged")
    hiding.allows(("list", box.ok / "merged" / "beside"), stage=stage)


@pytest.mark.denies
@mounting
def test_a_hidden_overlay_hides_its_layers(box: Box) -> None:
    """S-41: hidden is what it shows, and that can be read in the layer as well."""
    for name in ("ok/layer", "other"):
        (box.root / name).mkdir()
    (box.ok / "layer" / "s").write_text(SECRET)
    data = f"lowerdir={box.ok / 'layer'}:{box.root / 'other'}"
    stage = [PRIVATE, ("mount", "overlay", str(box.hid), "overlay", 0, data)]
    hiding = box.hiding(box.hid)

    never_shows(hiding, stage, box.ok / "layer" / "s", box.ok / "layer")
    never_shows(hiding, stage, box.hid / "s", box.hid)


@pytest.mark.denies
@mounting
def test_an_overlay_mounted_within_one_of_its_layers_is_hidden_too(box: Box) -> None:
    """S-41: its mount point lies in itself, so a search for other names must know where to end."""
    (box.root / "low" / "in").mkdir(parents=True)
    (box.root / "low" / "in" / "s").write_text(SECRET)
    (box.ok / "merged").mkdir()
    data = f"lowerdir={box.root / 'low'}:{box.ok}"
    stage = [PRIVATE, ("mount", "overlay", str(box.ok / "merged"), "overlay", 0, data)]
    hiding = box.hiding(box.root / "low" / "in")

    never_shows(hiding, stage, box.ok / "merged" / "in" / "s", box.ok / "merged")


@pytest.mark.denies
@mounting
def test_a_hidden_mount_point_is_hidden(box: Box) -> None:
    stage = [
        PRIVATE,
        ("mount", "tmpfs", str(box.hid), "tmpfs", 0, "mode=755"),
        ("mkdir", str(box.hid / "made")),
    ]
    hiding = box.hiding(box.hid)

    hiding.denies(("list", box.hid), ("list", box.hid / "made"), stage=stage)


@pytest.mark.denies
@mounting
def test_a_mount_beneath_a_hidden_path_is_hidden_with_it(box: Box) -> None:
    (box.hid / "inner").mkdir()
    stage = [PRIVATE, ("mount", "tmpfs", str(box.hid / "inner"), "tmpfs", 0, "mode=777")]

    box.denies(("list", box.hid / "inner"), ("create-and-remove", box.hid / "inner" / "x"), stage=stage)


@pytest.mark.denies
@mounting
def test_an_exposed_directory_that_is_mounted_elsewhere_is_no_conflict(box: Box) -> None:
    """Its content is visible anyway."""
    (box.ok / "alias").mkdir()
    stage = [PRIVATE, bind(box.own, box.ok / "alias")]

    box.denies(("read", box.secret), stage=stage)
    assert box.allows(("read", box.own / "mine"), stage=stage) == ["mine"]


@pytest.mark.denies
@mounting
def test_another_mount_of_the_same_file_system_shows_nothing_by_the_other_path(box: Box) -> None:
    """A tmpfs bound twice, of which one place is hidden."""
    for name in ("one", "two"):
        (box.root / name).mkdir()
    stage = [
        PRIVATE,
        ("mount", "tmpfs", str(box.root / "one"), "tmpfs", 0, "mode=755"),
        ("mkdir", str(box.root / "one" / "made")),
        bind(box.root / "one", box.root / "two"),
    ]
    hiding = box.hiding(box.root / "one")

    hiding.denies(("list", box.root / "two" / "made"), ("list", box.root / "one"), stage=stage)


@pytest.mark.denies
@mounting
def test_without_a_mount_table_nothing_starts(box: Box) -> None:
    """Aliases could not be excluded."""
    stage = [PRIVATE, ("mount", "tmpfs", "/proc", "tmpfs", 0, "mode=755")]

    box.refuses("protection-unavailable", *box.options, stage=stage)
