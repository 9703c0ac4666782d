"""The scan's three answers: what counts as a read, what does not, and what only a run could tell."""

from __future__ import annotations

import pytest

from runner_e2e.plan.marker import scan

NAME = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
USES = 'import { take } from "./selectors.js";\nconsole.log(take());'


def judge(selectors: str, launch: str) -> str:
    return scan(selectors.encode(), launch.encode()).result


TABLES = {
    "property": f'const M = {{ {NAME}: "--id" }};',
    "string": f'const M = {{ "{NAME}": "--id" }} as const;',
    "computed": f'const M = {{ ["{NAME}"]: "--id" }};',
    "constant": f'const K = "{NAME}"; const M = {{ [K]: "--id" }};',
    "exported": f'export const M: Record<string, string> = {{ {NAME}: "--id" }};',
}
LOOPS = {
    "entries": "for (const [k, flag] of Object.entries(M)) { const v = process.env[k]; out(flag, v); }",
    "keys": "for (const k of Object.keys(M)) out(process.env[k]);",
    "named-keys": "const keys = Object.keys(M); for (const k of keys) out(process.env[k]);",
    "for-in": "for (const k in M) out(process.env[k]);",
    "map": "return Object.keys(M).map((k) => process.env[k]);",
    "for-each": "Object.entries(M).forEach(([k, flag]) => out(flag, process.env[k]));",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_whose_names_are_looked_up_is_supported(table: str, loop: str) -> None:
    reading = f"{table} export function take() {{ {loop} }}"

    assert judge(reading, USES) == "supported"
    assert judge(reading.replace(NAME, "OTHER"), USES) != "supported"  # control


@pytest.mark.parametrize(
    ("top", "body"),
    [
        pytest.param(f"const K = `{NAME}`;", "return process.env[K];", id="template-constant"),
        pytest.param("", f"const {{ [`{NAME}`]: id }} = process.env;", id="template-in-a-pattern"),
        pytest.param(f'const L = ["{NAME}"];', "return L.map((k) => process.env[k]);", id="list"),
        pytest.param("", f'for (const k of ["{NAME}"]) out(process.env[k]);', id="list-in-place"),
        pytest.param(
            f'const K = "{NAME}"; const L = [K];', "for (const k of L) out(process.env[k]);", id="list-of-it"
        ),
        pytest.param(
            f'const L = [{{ name: "{NAME}" }}];', "for (const o of L) out(process.env[o.name]);", id="rows"
        ),
        pytest.param(f'const K = "{NAME}";', "return process.env[c ? K : J];", id="choice"),
        pytest.param(f'const K = "{NAME}"; const J = K;', "return process.env[J];", id="second-name"),
        pytest.param("const get = (k) => process.env[k];", f'return get("{NAME}");', id="own-getter"),
        pytest.param(
            "const get = (from, k) => from[k];", f'return get(process.env, "{NAME}");', id="lent-to-a-getter"
        ),
        pytest.param("", f'return Deno.env.get("{NAME}");', id="get"),
        pytest.param('import { env } from "node:process";', f"return env.{NAME};", id="imported"),
        pytest.param('import { env as e } from "node:process";', f"return e.{NAME};", id="renamed"),
        pytest.param("", f"const {{ env: e }} = process; return e.{NAME};", id="taken-from-process"),
        pytest.param("", f"const all = {{ ...process.env }}; return all.{NAME};", id="copy"),
        pytest.param("", f"return parse(process.env).{NAME};", id="parsed"),
    ],
)
def test_a_name_that_ends_as_a_key_of_an_environment_is_supported(top: str, body: str) -> None:
    reading = f"{top} export function take() {{ {body} }}"

    assert judge(reading, USES) == "supported"
    assert judge(reading.replace(NAME, "OTHER"), USES) != "supported"  # control


@pytest.mark.parametrize(
    ("top", "body"),
    [
        pytest.param("", f"delete process.env.{NAME};", id="delete"),
        pytest.param("", f'delete process.env["{NAME}"];', id="delete-by-key"),
        pytest.param("", f'Reflect.deleteProperty(process.env, "{NAME}");', id="delete-by-call"),
        pytest.param("", f'return "{NAME}" in process.env;', id="in"),
        pytest.param("", f'return Object.hasOwn(process.env, "{NAME}");', id="has"),
        pytest.param("", f"void process.env.{NAME};", id="void"),
        pytest.param("", f"return typeof process.env.{NAME};", id="type"),
        pytest.param("", f"process.env.{NAME};", id="mentioned"),
        pytest.param("", f'console.log("{NAME}");', id="logged"),
        pytest.param("", f'console.error("unset " + "{NAME}");', id="logged-in-a-sentence"),
        pytest.param(f'const K = "{NAME}";', "console.log(`unset ${K}`);", id="logged-in-a-template"),
        pytest.param("", f'throw new Error("{NAME}");', id="thrown"),
        pytest.param(f'const K = "{NAME}";', "delete process.env[K];", id="delete-by-constant"),
        pytest.param(f'const L = ["{NAME}"];', "for (const k of L) delete process.env[k];", id="scrub"),
        pytest.param(
            f'const L = ["{NAME}"];', "L.forEach((k) => { delete process.env[k]; });", id="scrub-by-callback"
        ),
        pytest.param(
            f"const T = {{ {NAME}: 1 }};", "for (const k in T) delete process.env[k];", id="scrub-by-table"
        ),
        pytest.param(f'const K = "{NAME}"; const L = [K];', "return 1;", id="unused-list"),
        pytest.param("const o = { a: 1 };", f"return o.{NAME};", id="property-of-a-literal"),
        pytest.param(
            "const o = { a: 1 };", f"const {{ {NAME}: id }} = o; return id;", id="part-of-a-literal"
        ),
        pytest.param('import o from "texts";', f"return o.{NAME};", id="property-of-an-import"),
        pytest.param(f"enum O {{ {NAME} }}", f"return O.{NAME};", id="member-of-an-enumeration"),
        pytest.param("", f"f({{ env: {{ ...process.env, {NAME}: '' }} }});", id="for-a-child"),
    ],
)
def test_a_name_that_is_only_removed_shown_or_asked_for_is_unsupported(top: str, body: str) -> None:
    assert judge(f"{top} export function take() {{ {body} }}", USES) == "unsupported"
    assert judge(f"{top} export function take() {{ {body} f(process.env.{NAME}); }}", USES) == "supported"


@pytest.mark.parametrize(
    ("selectors", "reason"),
    [
        *(
            pytest.param(f"{top} export function take() {{ {body} }}", "name-used-otherwise", id=name)
            for name, top, body in [
                ("text", "", f'return "{NAME}";'),
                ("template-text", "", f"return `{NAME}`;"),
                ("argument", "", f'return f("{NAME}");'),
                ("own-scrubber", "const drop = (k) => { delete process.env[k]; };", f'drop("{NAME}");'),
                ("other-get", "", f'return texts.get("{NAME}");'),
                ("compared", "", f'return k === "{NAME}";'),
                ("list-handed-on", f'const L = ["{NAME}"];', "return drop(process.env, L);"),
                ("list-searched", f'const L = ["{NAME}"];', "return L.includes(k);"),
                ("list-filtered", f'const L = ["{NAME}"];', "return pick(L.filter((k) => k in x));"),
                ("object-handed-on", f'const K = "{NAME}"; const o = {{ K }};', "return f(o);"),
                ("chosen", f'const K = "{NAME}";', "const x = c ? K : J; return f(x);"),
                ("schema", "", f"return z.object({{ {NAME}: z.string() }}).parse(process.env);"),
                ("schema-by-constant", f'const K = "{NAME}";', "return z.object({ [K]: z.string() });"),
                ("property-of-a-call", "", f"return settings().{NAME};"),
                ("property-of-a-result", "const s = settings();", f"return s.{NAME};"),
                ("dropped-from-a-copy", "", f"const {{ {NAME}: _, ...rest }} = process.env; return rest;"),
            ]
        ),
        *(
            pytest.param(f"export function take(env, k) {{ {body} }}", "computed-name", id=name)
            for name, body in [
                ("computed", "return process.env[k];"),
                ("computed-of-a-parameter", "return env[k];"),
                ("computed-template", "return env[`${a}_ID`];"),
                ("computed-template-with-it", f"return env[`${{a}} {NAME}`];"),
                ("computed-call", "return env[name()];"),
                ("computed-variable", "const e = process.env; return e[k];"),
                ("computed-part", "const { [k]: id } = process.env; return id;"),
                ("escape", 'return env["\\x41 text"];'),
                ("lent-and-indexed", "f(process.env); return k[i];"),
            ]
        ),
        *(
            pytest.param(f"export function take(env, k) {{ {body} }}", "name-in-parts", id=name)
            for name, body in [
                ("escape-inside-it", f'return env["\\x50{NAME[1:]}"];'),
                ("sum", f'return env["{NAME[:20]}" + k];'),
                ("template-part", f"return `${{k}}{NAME}`;"),
                ("joined", f'return [{", ".join(map(repr, NAME.split("_")))}].join("_");'),
                ("end", 'return Object.entries(env).find(([k]) => k.endsWith("SELECTED_ID"));'),
            ]
        ),
    ],
)
def test_what_may_read_the_variable_without_being_seen_to_is_unknown(selectors: str, reason: str) -> None:
    found = scan(selectors.encode(), USES.encode())

    assert (found.result, found.reason) == ("unknown", reason)


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param(
            f"export function take() {{}} export function other(e) {{ return e.{NAME}; }}", id="other"
        ),
        *(
            pytest.param(f"function read() {{ return process.env.{NAME}; }} {rest}", id=name)
            for name, rest in {
                "not-exported": "function take() { return read(); }",
                "type-export": "export type { read as take };",
                "type-export-specifier": "export { type read as take };",
                "function-nobody-calls": "export function take() {}",
                "shadowed-function": "export function take(read) { read(); }",
                "mentioned-function": "export function take() { read; void read; }",
                "type-of-function": "export function take(f: typeof read) { return typeof read; }",
            }.items()
        ),
        pytest.param(f'export const take = "{NAME}";', id="exported-constant"),
        pytest.param(f'export enum take {{ Id = "{NAME}" }}', id="exported-enumeration"),
    ],
)
def test_a_reader_that_no_used_export_leads_to_makes_the_answer_unknown(selectors: str) -> None:
    assert judge(selectors, USES) == "unknown"


@pytest.mark.parametrize(
    "launch",
    [
        pytest.param("console.log(1);", id="nothing"),
        pytest.param(f'export enum V {{ Id = "{NAME}" }}', id="own-enumeration-unused"),
        pytest.param(f'const K = "{NAME}";', id="own-constant-unused"),
        pytest.param(f"function main() {{ delete process.env.{NAME}; }} main();", id="deletes-itself"),
        pytest.param(f"spawn('x', {{ env: {{ {NAME}: id }} }});", id="sets-it-for-a-child"),
        pytest.param(f"// import {{ take }} from './elsewhere.js'; take() {NAME}", id="comment"),
        pytest.param(f"console.log(\"import {{ take }} from './elsewhere.js'; env.{NAME}\");", id="prose"),
        pytest.param('import { take } from "./selectors.js"; take();', id="uses-what-reads-nothing"),
        pytest.param('import "node:fs"; import "node:fs/promises"; import "fs";', id="runtime"),
        pytest.param('import { z } from "zod"; import "a.b/c.js"; z();', id="packages"),
        pytest.param('import { z } from "@scope/name"; import "@scope/name/x"; z();', id="scoped-packages"),
        pytest.param('await import("tsx"); require("yaml");', id="packages-when-it-runs"),
        pytest.param('import type { T } from "./types.js"; export type { U } from "./u.js";', id="types"),
        pytest.param("for (let i = 0; i < argv.length; i++) f(argv[i]);", id="index-of-a-list"),
        pytest.param("process.env[k] = v; delete process.env[k]; f(k in process.env);", id="computed-write"),
    ],
)
def test_two_files_on_their_own_that_read_nothing_are_unsupported(launch: str) -> None:
    found = scan(b'import type { T } from "./launch.js"; export function take() {}', launch.encode())

    assert (found.result, found.reason) == ("unsupported", "not-read")


IMPORTS = {
    "named": 'import { run } from "./run.js"; run();',
    "unused": 'import { run } from "./run.js";',
    "whole": 'import * as run from "../run"; run.x();',
    "side-effect": 'import "./run.js";',
    "json": 'import names from "./names.json"; f(names);',
    "deeper-selectors": 'import "./lib/selectors.js";',
    "higher-selectors": 'import "../selectors.js";',
    "root-alias": 'import { run } from "@/run"; run();',
    "home-alias": 'import { run } from "~/run"; run();',
    "hash-alias": 'import { run } from "#run"; run();',
    "dollar-alias": 'import { run } from "$lib/run"; run();',
    "absolute": 'import "/run.js";',
    "address": 'import "file:///run.js";',
    "dynamic": 'await import("./run.js");',
    "dynamic-in-a-function": 'function never() { return import("./run.js"); }',
    "dynamic-template": "await import(`./run.js`);",
    "dynamic-computed": "await import(path);",
    "require": 'require("./run");',
    "require-computed": "require(path);",
    "import-equals": 'import run = require("./run"); run();',
    "re-export": 'export { run } from "./run.js";',
    "re-export-all": 'export * from "./run.js";',
    "re-export-whole": 'export * as run from "./run.js";',
    "escape": 'import "\\x2e/run.js";',
}


@pytest.mark.parametrize("code", IMPORTS.values(), ids=IMPORTS)
def test_an_import_that_is_not_followed_makes_the_answer_unknown(code: str) -> None:
    nothing = "export function take() { return 1; }"

    for selectors, launch in ((nothing, f"{code}\n{USES}"), (f"{code}\n{nothing}", USES)):
        found = scan(selectors.encode(), launch.encode())
        assert (found.result, found.reason) == ("unknown", "import-not-followed")


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        pytest.param('import "./selectors.js";', "supported", id="side-effect"),
        pytest.param('await import("./selectors.js");', "supported", id="dynamic"),
        pytest.param('require("./selectors");', "supported", id="require"),
        pytest.param('export * from "./selectors.js";', "supported", id="re-export"),
        pytest.param('import { other } from "./selectors.js"; other();', "supported", id="used-name"),
        pytest.param('import { other } from "./selectors.js";', "unknown", id="unused-name"),
        pytest.param('import type { other } from "./selectors.js";', "unknown", id="type"),
        pytest.param('function never() { return import("./selectors.js"); }', "unknown", id="never-loaded"),
        pytest.param("console.log(1);", "unknown", id="not-loaded"),
    ],
)
def test_selectors_that_read_when_they_load_count_once_they_are_loaded(launch: str, expected: str) -> None:
    at_top = f"if (process.env.{NAME}) process.argv.push(process.env.{NAME}); export function other() {{}}"
    in_a_function = f"function never() {{ return process.env.{NAME}; }} export function other() {{}}"

    assert judge(at_top, launch) == expected
    assert judge(in_a_function, launch) == "unknown"  # control


def test_a_namespace_among_several_promises_is_not_followed() -> None:
    selectors = f"export function take() {{ return process.env.{NAME}; }}"
    launch = 'const [s] = await Promise.all([import("./selectors.js")]); s.take();'

    assert judge(selectors, launch) == "unknown"


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        pytest.param("f(process.env[KEY]);", "supported", id="read"),
        pytest.param("delete process.env[KEY];", "unknown", id="deleted"),
        pytest.param("console.log(KEY);", "unknown", id="logged"),
        pytest.param("f(KEY);", "unknown", id="handed-on"),
        pytest.param("", "unknown", id="unused"),
    ],
)
def test_an_imported_constant_counts_by_its_use(launch: str, expected: str) -> None:
    imported = f'import {{ KEY }} from "./selectors.js"; {launch}'

    assert judge(f'export const KEY = "{NAME}";', imported) == expected
