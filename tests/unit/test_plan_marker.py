"""The scan of a target's source for the selected-id variable: code counts, everything else does not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.plan.marker import scan
from runner_e2e.plan.objects import MAX_FILE_BYTES
from runner_e2e.plan.ts_scopes import MAX_DEPTH
from runner_e2e.plan.ts_syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

NAME = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"

# The shape of the real harness: read once, always deleted, called before anything is parsed.
SELECTORS = f"""
export interface Selectors {{ ids: string[]; all: boolean }}

const SELECTED = "{NAME}";

export function takeSelectedId(env: NodeJS.ProcessEnv = process.env): string | undefined {{
  const value = env[SELECTED]?.trim();
  delete env[SELECTED];
  return value || undefined;
}}

export function parseSelectors(argv: readonly string[]): Selectors {{
  return {{ ids: [...argv], all: false }};
}}
"""
LAUNCH = """#!/usr/bin/env tsx
import { parseSelectors, takeSelectedId } from "./selectors.js";

async function main(argv: string[]): Promise<void> {
  const selected = takeSelectedId();
  if (selected) argv.push("--id", selected);
  console.log(parseSelectors(argv));
}

await main(process.argv.slice(2));
"""
USES = 'import { take } from "./selectors.js";\nconsole.log(take());'


def judge(selectors: str, launch: str) -> str:
    return scan(selectors.encode(), launch.encode()).result


def test_the_shape_of_the_real_harness_is_supported() -> None:
    found = scan(SELECTORS.encode(), LAUNCH.encode())

    assert (found.result, found.reason) == ("supported", "launch-uses-consumer")


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param(f"export function take() {{ return process.env.{NAME}; }}", id="property"),
        pytest.param(f"export const take = () => process.env.{NAME};", id="arrow"),
        pytest.param(f"export const take = (env: Env) => env?.{NAME}!;", id="optional-chain"),
        pytest.param(f'export function take() {{ return process.env["{NAME}"]; }}', id="subscript"),
        pytest.param(f"export function take() {{ return process.env['{NAME}']; }}", id="single-quotes"),
        pytest.param(f"export function take() {{ return process.env[`{NAME}`]; }}", id="template-as-key"),
        pytest.param(f"export function take() {{ const {{ {NAME} }} = process.env; }}", id="shorthand"),
        pytest.param(
            f"export function take() {{ const {{ {NAME}: id }} = process.env; return id; }}", id="renaming"
        ),
        pytest.param(f"export const take = ({{ {NAME}: id = '' }}: Env) => id;", id="parameter"),
        pytest.param(f"export const take = ({{ {NAME} = '' }}: Env) => 1;", id="shorthand-with-default"),
        pytest.param(
            f"export const take = () => {{ let id; ({{ {NAME}: id }} = process.env); return id; }};",
            id="destructuring-assignment",
        ),
        pytest.param(
            f"export const take = () => {{ const {{ env: {{ {NAME}: id }} }} = process; return id; }};",
            id="nested-destructuring",
        ),
        pytest.param(
            f'export const take = () => {{ const {{ ["{NAME}"]: id }} = process.env; return id; }};',
            id="computed-destructuring",
        ),
        pytest.param(
            f'const KEY = "{NAME}"; export const take = () => {{ const {{ [KEY]: id }} = process.env; '
            "return id; };",
            id="destructuring-by-constant",
        ),
        pytest.param(
            f'const KEY = "{NAME}"; export function take() {{ return process.env[KEY]; }}', id="constant"
        ),
        pytest.param(
            f'const KEY = "{NAME}" as const; export function take() {{ return process.env[KEY]; }}',
            id="constant-assertion",
        ),
        pytest.param(
            f'export function take() {{ const key = "{NAME}"; return process.env[key]; }}',
            id="local-constant",
        ),
        pytest.param(
            f'const V = {{ id: "{NAME}" }} as const; export const take = () => process.env[V.id];',
            id="constant-object",
        ),
        pytest.param(
            f'enum V {{ Id = "{NAME}" }} export const take = () => process.env[V.Id];', id="enumeration"
        ),
        pytest.param(
            f'export function take() {{ return Reflect.get(process.env, "{NAME}"); }}', id="argument"
        ),
        pytest.param(
            f"function read() {{ return process.env.{NAME}; }} export function take() {{ return read(); }}",
            id="through-another-function",
        ),
        pytest.param(
            f"const id = process.env.{NAME}; export function take() {{ return id; }}",
            id="through-a-variable",
        ),
        pytest.param(
            f"let id; if (process) {{ id = process.env.{NAME}; }} export function take() {{ return id; }}",
            id="through-an-assignment",
        ),
        pytest.param(
            f"if (process) {{ var id = process.env.{NAME}; }} export function take() {{ return id; }}",
            id="through-a-hoisted-variable",
        ),
        pytest.param(
            f"const a = () => b(); const b = () => process.env.{NAME}; export {{ a as take }};",
            id="exported-under-another-name",
        ),
        pytest.param(
            f'const read = () => process.env.{NAME}; export {{ read as "take" }};', id="exported-as-a-string"
        ),
        pytest.param(f"export class take {{ static id = process.env.{NAME}; }}", id="class"),
        pytest.param(f"export namespace take {{ export const id = process.env.{NAME}; }}", id="namespace"),
        pytest.param(f"export const take = {{ id() {{ return process.env.{NAME}; }} }};", id="object"),
        pytest.param(f"export const take = () => `id ${{process.env.{NAME}}}`;", id="template-substitution"),
        pytest.param(f"export const take = (): string => (process.env as Env).{NAME} as string;", id="casts"),
        pytest.param(f"export const take = () => <string>process.env.{NAME};", id="old-cast"),
        pytest.param(f"export const take = () => process.env.{NAME} ??= '';", id="logical-assignment"),
        pytest.param(f"\ufeffexport const take = () => process.env.{NAME};", id="byte-order-mark"),
        pytest.param(f"export const take = () => {{\r\n  return process.env.{NAME};\r\n}};\r\n", id="crlf"),
        pytest.param(
            f'const V = ["{NAME}"]; export const take = () => process.env[V[0]];', id="constant-list"
        ),
        pytest.param(
            f'const V = {{ a: {{ b: ["{NAME}"] }} }}; export const take = () => process.env[V.a.b[0]];',
            id="nested-constant",
        ),
        pytest.param(
            f"let id; id ??= process.env.{NAME}; export function take() {{ return id; }}",
            id="through-a-logical-assignment",
        ),
        pytest.param(
            f"export function take({{ id = process.env.{NAME} }}) {{ return id; }}", id="default-in-a-pattern"
        ),
        pytest.param(f"export function take(id = process.env.{NAME}) {{ return id; }}", id="default"),
        pytest.param(f"export function take() {{ let [id = process.env.{NAME}] = []; }}", id="list-default"),
        pytest.param(f"export const take = {{ [process.env.{NAME}]: 1 }};", id="inside-a-computed-key"),
        pytest.param(f"export class take {{ [process.env.{NAME}]() {{}} }}", id="inside-a-computed-method"),
        pytest.param(f"var take = () => process.env.{NAME}; export {{ take }};", id="var"),
        pytest.param(
            f"namespace N {{ export const id = process.env.{NAME}; }} export const take = () => N.id;",
            id="through-a-namespace",
        ),
        pytest.param(
            f"namespace N {{ export const id = process.env.{NAME}; }} import id = N.id; "
            "export const take = () => id;",
            id="through-an-alias",
        ),
        pytest.param(f"export function* take() {{ yield process.env.{NAME}; }}", id="generator"),
        pytest.param(f"export abstract class take {{ x() {{ return e.{NAME}; }} }}", id="abstract-class"),
    ],
)
def test_code_that_reads_the_variable_is_supported(selectors: str) -> None:
    assert judge(selectors, USES) == "supported"


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param("export function take() { return undefined; }", id="absent"),
        pytest.param(f"// process.env.{NAME}\nexport function take() {{}}", id="line-comment"),
        pytest.param(f"/* process.env.{NAME} */ export function take() {{}}", id="block-comment"),
        pytest.param(f"export function take() {{ /** @see {NAME} */ return 1; }}", id="comment-inside"),
        pytest.param(f'export function take() {{ return "Set {NAME} to an id"; }}', id="prose"),
        pytest.param(f"export function take() {{ return process.env.{NAME}S; }}", id="longer-name"),
        pytest.param(f"export function take() {{ return process.env.X_{NAME}; }}", id="prefixed-name"),
        pytest.param(f"export function take() {{ return process.env.{NAME.lower()}; }}", id="lower-case"),
        pytest.param(f'export function take() {{ return process.env["{NAME} "]; }}', id="blank-in-a-key"),
        pytest.param(f'export function take() {{ "{NAME}"; }}', id="unused-string"),
        pytest.param(f'export function take() {{ const key = "{NAME}"; return 1; }}', id="unused-constant"),
        pytest.param(f'const KEY = "{NAME}"; export function take() {{}}', id="unused-top-level-constant"),
        pytest.param(f"export function take() {{ return /{NAME}/; }}", id="regular-expression"),
        pytest.param(f"type K = '{NAME}'; export function take(k: K) {{}}", id="literal-type"),
        pytest.param(f"interface Env {{ {NAME}: string }} export function take(e: Env) {{}}", id="interface"),
        pytest.param(f"type Env = {{ {NAME}?: string }}; export function take(e: Env) {{}}", id="type"),
        pytest.param(f"export function take(e: {{ {NAME}: string }}) {{}}", id="parameter-type"),
        pytest.param(f"export function take(e: Env['{NAME}']) {{}}", id="indexed-type"),
        pytest.param(f"export function take<T extends '{NAME}'>() {{}}", id="type-parameter"),
        pytest.param(f"export function take() {{ return f<'{NAME}'>(); }}", id="type-argument"),
        pytest.param(f"export function take() {{ return x as '{NAME}'; }}", id="cast-to-a-type"),
        pytest.param(f"export function take() {{ return x satisfies '{NAME}'; }}", id="satisfies"),
        pytest.param(f"declare const env: {{ {NAME}: string }}; export function take() {{}}", id="ambient"),
        pytest.param(
            f"declare global {{ interface Env {{ {NAME}: string }} }} export function take() {{}}",
            id="global-augmentation",
        ),
        pytest.param(f"export function take(): asserts x is '{NAME}' {{}}", id="assertion"),
        pytest.param(f"export function take(x: unknown): x is '{NAME}' {{}}", id="predicate"),
        pytest.param(f"export class take implements Reader<'{NAME}'> {{}}", id="implements"),
        pytest.param(f"export class take {{ [key: '{NAME}']: string }}", id="index-signature"),
        pytest.param(f"export class take {{ x(k: '{NAME}'): void; x() {{}} }}", id="method-overload"),
        pytest.param(f"export abstract class take {{ abstract x(k: '{NAME}'): void }}", id="abstract-method"),
        pytest.param(
            f"const K = '{NAME}'; export abstract class take {{ abstract [K](): void }}", id="abstract-key"
        ),
        pytest.param(
            f"export function take(k: '{NAME}'): void; export function take() {{}}", id="function-overload"
        ),
        pytest.param(f"export function take(env: Env) {{ env.{NAME} = 'x'; }}", id="written"),
        pytest.param(f"export function take(env: Env) {{ env['{NAME}'] = 'x'; }}", id="written-by-key"),
        pytest.param(
            f"const KEY = '{NAME}'; export function take(env: Env) {{ env[KEY] = 'x'; }}",
            id="written-by-constant",
        ),
        pytest.param(
            f"export function take() {{ spawn({{ env: {{ {NAME}: 'x' }} }}); }}", id="passed-to-a-child"
        ),
        pytest.param(
            f"export function take() {{ spawn({{ env: {{ ['{NAME}']: 'x' }} }}); }}", id="computed-key"
        ),
        pytest.param(
            f"const KEY = '{NAME}'; export function take() {{ spawn({{ env: {{ [KEY]: 'x' }} }}); }}",
            id="key-by-constant",
        ),
        pytest.param(f"export class take {{ {NAME} = 1; }}", id="field-name"),
        pytest.param(f"export class take {{ {NAME}() {{}} }}", id="method-name"),
        pytest.param(f"export class take {{ #{NAME} = 1; x() {{ return this.#{NAME}; }} }}", id="private"),
        pytest.param(f"export const take = () => {{ {NAME}: for (;;) break {NAME}; }};", id="label"),
        pytest.param(f'import x from "{NAME}"; export const take = () => x;', id="import-source"),
    ],
)
def test_text_that_is_no_reading_code_is_unsupported(selectors: str) -> None:
    assert judge(selectors, USES) == "unsupported"


@pytest.mark.parametrize(
    "launch",
    [
        pytest.param('import { take } from "./selectors.js"; take();', id="named"),
        pytest.param("import { take } from './selectors'; take();", id="without-suffix"),
        pytest.param('import { take } from "./selectors.ts"; take();', id="ts-suffix"),
        pytest.param('import { take } from "../runner-e2e/selectors.js"; take();', id="other-spelling"),
        pytest.param('import { take as t, other } from "./selectors.js"; t();', id="renamed"),
        pytest.param('import { type T, take } from "./selectors.js"; take();', id="beside-a-type"),
        pytest.param('import * as s from "./selectors.js"; s.take();', id="namespace"),
        pytest.param('import * as s from "./selectors.js"; s?.["take"]();', id="namespace-subscript"),
        pytest.param(
            'import * as s from "./selectors.js"; const { take: t } = s; t();', id="namespace-parts"
        ),
        pytest.param('import t from "./selectors.js"; t();', id="default"),
        pytest.param('import t, { other } from "./selectors.js"; t();', id="default-beside-named"),
        pytest.param('import { default as t } from "./selectors.js"; t();', id="named-default"),
        pytest.param('const s = await import("./selectors.js"); s.take();', id="dynamic"),
        pytest.param('const { take } = await import("./selectors.js"); take();', id="dynamic-parts"),
        pytest.param('const { take: t } = await import("./selectors.js"); t();', id="dynamic-renamed"),
        pytest.param('const { default: t } = await import("./selectors.js"); t();', id="dynamic-default"),
        pytest.param('(await import("./selectors.js")).take();', id="dynamic-at-once"),
        pytest.param('import("./selectors.js").then(({ take }) => take());', id="dynamic-then-parts"),
        pytest.param('import("./selectors.js").then((s) => s.take());', id="dynamic-then"),
        pytest.param('import("./selectors.js").then(s => s.take());', id="dynamic-then-bare"),
        pytest.param('const { take } = require("./selectors"); take();', id="require"),
        pytest.param('const s = require("./selectors"); s.take();', id="require-whole"),
        pytest.param("const { take } = require(`./selectors`); take();", id="template-path"),
        pytest.param('import { take } from "./selectors.mjs"; take();', id="mjs-suffix"),
        pytest.param('import { take } from "./selectors.mts"; take();', id="mts-suffix"),
        pytest.param(
            'import * as s from "./selectors.js"; console.log(process.env[s.KEY]);', id="namespace-constant"
        ),
        pytest.param('require("./selectors.js").take();', id="require-at-once"),
        pytest.param('import s = require("./selectors"); s.take();', id="import-equals"),
        pytest.param('(<any>await import("./selectors.js")).take();', id="dynamic-old-cast"),
        pytest.param(
            'const { take = x } = await import("./selectors.js"); take();', id="dynamic-default-part"
        ),
        pytest.param(
            'const { take: t = x } = await import("./selectors.js"); t();', id="dynamic-default-renamed"
        ),
        pytest.param('const { ...s } = await import("./selectors.js"); s.take();', id="dynamic-rest"),
        pytest.param(
            'let s; const m = require("./selectors"); ({ s } = m); m.take();', id="beside-assignment"
        ),
        pytest.param(
            'import { take } from "./selectors.js"; declare global { const take: 1 } take();',
            id="ambient-name",
        ),
        pytest.param(
            'import { take } from "./selectors.js"; f({ [take()]: 1 });', id="inside-a-computed-key"
        ),
        *(
            pytest.param(f'import {{ take }} from "./selectors.js"; {code} take();', id=name)
            for name, code in {
                "after-a-block": "{ const take = 1; f(take); }",
                "after-a-loop": "for (let take = 0; take < 1; take++) {}",
                "after-a-loop-over": "for (const take of x) {}",
                "after-a-function": "function m(take) { var take; }",
                "after-a-static-block": "class A { static { var take = 1; } }",
                "after-a-namespace": "namespace M { var take = 1; }",
                "after-an-expression": "f(function take() {});",
                "after-a-catch": "try {} catch (take) {}",
                "after-an-ambient-name": "declare const take: 1;",
                "after-a-type": "type take = 1; interface take {}",
            }.items()
        ),
        pytest.param('import { take } from "./selectors.js"; x[take()] = 1;', id="inside-a-written-key"),
        pytest.param('import { take } from "./selectors.js"; take().x = 1;', id="inside-a-written-object"),
        pytest.param(f"{USES.splitlines()[0]} function main() {{ take(); }} main();", id="in-a-function"),
        pytest.param(f"{USES.splitlines()[0]} const main = () => take(); main();", id="in-an-arrow"),
        pytest.param(f"{USES.splitlines()[0]} export async function main() {{ take(); }}", id="exported"),
        pytest.param(f"{USES.splitlines()[0]} function main() {{ take(); }} export {{ main }};", id="clause"),
        pytest.param(f"{USES.splitlines()[0]} export default () => take();", id="default-export"),
        pytest.param(
            f"{USES.splitlines()[0]} class App {{ run() {{ take(); }} }} new App().run();", id="in-a-class"
        ),
        pytest.param(
            f"{USES.splitlines()[0]} const a = () => b(); const b = () => take(); a();", id="two-steps"
        ),
        pytest.param(f"{USES.splitlines()[0]} const steps = [take]; run(steps);", id="in-a-list"),
        pytest.param(f"{USES.splitlines()[0]} run({{ take }});", id="shorthand"),
        pytest.param(f"{USES.splitlines()[0]} const id = take() as string;", id="initial-value"),
        pytest.param(f"{USES.splitlines()[0]} if (import.meta.main) take();", id="guarded"),
        pytest.param(f"{USES.splitlines()[0]} (0, take)();", id="comma"),
        pytest.param(f"{USES.splitlines()[0]} take`x`;", id="tag"),
        pytest.param(f"console.log(process.env.{NAME});", id="reads-itself"),
        pytest.param(f"const {{ {NAME}: id }} = process.env;", id="destructures-itself"),
        pytest.param(f'const K = "{NAME}"; const id = process.env[K];', id="reads-by-constant"),
        pytest.param(
            'import { KEY } from "./selectors.js"; console.log(process.env[KEY]);', id="imported-constant"
        ),
    ],
)
def test_a_launcher_that_uses_the_consumer_is_supported(launch: str) -> None:
    selectors = (
        f'export const KEY = "{NAME}"; export function take() {{ return process.env[KEY]; }} '
        "export function other() {} export default take;"
    )

    assert judge(selectors, launch) == "supported"


@pytest.mark.parametrize(
    "launch",
    [
        pytest.param("console.log(1);", id="no-import"),
        pytest.param('import "./selectors.js";', id="side-effect-import"),
        pytest.param('import { take } from "./selectors.js";', id="unused"),
        pytest.param('import { take } from "./selectors.js"; take; void take;', id="only-mentioned"),
        pytest.param('import { take } from "./selectors.js"; type T = typeof take;', id="used-as-a-type"),
        pytest.param('import { take } from "./selectors.js"; let f: typeof take;', id="annotation"),
        pytest.param('import { take } from "./selectors.js"; f(x as typeof take);', id="cast"),
        pytest.param('import { take } from "./selectors.js"; f<typeof take>(x);', id="type-argument"),
        pytest.param('import type { take } from "./selectors.js"; take();', id="type-import"),
        pytest.param('import { type take } from "./selectors.js"; take();', id="type-specifier"),
        pytest.param('import { other } from "./selectors.js"; other();', id="other-export"),
        pytest.param('import { other as take } from "./selectors.js"; take();', id="other-under-its-name"),
        pytest.param('import { take } from "./elsewhere.js"; take();', id="other-module"),
        pytest.param('import { take } from "selectors"; take();', id="package"),
        pytest.param('import { take } from "/tests/runner-e2e/selectors.js"; take();', id="absolute"),
        pytest.param('import { take } from "./lib/selectors.js"; take();', id="deeper"),
        pytest.param('import { take } from "../selectors.js"; take();', id="higher"),
        pytest.param('import { take } from "./selectors.json"; take();', id="other-suffix"),
        pytest.param('export { take } from "./selectors.js";', id="re-export"),
        pytest.param('export * from "./selectors.js";', id="re-export-all"),
        pytest.param('import { take } from "./selectors.js"; export { take };', id="re-export-of-import"),
        pytest.param('import * as s from "./selectors.js"; s.other();', id="namespace-other"),
        pytest.param('import * as s from "./selectors.js"; s.take;', id="namespace-mentioned"),
        pytest.param('import * as s from "./selectors.js"; let f: typeof s.take;', id="namespace-type"),
        pytest.param('import * as s from "./selectors.js"; const { take } = s;', id="namespace-part-unused"),
        pytest.param('const { take } = await import("./selectors.js");', id="dynamic-unused"),
        pytest.param('await import("./selectors.js");', id="dynamic-side-effect"),
        pytest.param('import("./selectors.js").take();', id="promise"),
        pytest.param('import("./selectors.js").then((s) => s.other());', id="dynamic-other"),
        pytest.param('import("./selectors.js").catch(({ take }) => take());', id="dynamic-error"),
        pytest.param('import("./selectors.js").then((x, { take }) => take());', id="dynamic-second"),
        pytest.param('import("./elsewhere.js").then(({ take }) => take());', id="dynamic-elsewhere"),
        pytest.param("then(({ take }) => take());", id="bare-then"),
        pytest.param('const { a: { take } } = await import("./selectors.js"); take();', id="dynamic-nested"),
        pytest.param('const [take] = await import("./selectors.js"); take();', id="dynamic-list"),
        pytest.param(
            'const { a: [take] } = await import("./selectors.js"); take();', id="dynamic-nested-list"
        ),
        pytest.param('const { take } = import("./selectors.js"); take();', id="promise-parts"),
        pytest.param('const { take } = load("./selectors.js"); take();', id="other-loader"),
        pytest.param('import { take } from "./selectors.js"; (take => take())(x);', id="shadowed-parameter"),
        pytest.param(
            'import { take } from "./selectors.js"; { const take = () => 1; take(); }', id="shadowed-block"
        ),
        pytest.param(
            'import { take } from "./selectors.js"; function main({ take }) { take(); } main({});',
            id="shadowed-pattern",
        ),
        pytest.param(
            'import { take } from "./selectors.js"; function main() { var take = 1; { f(take); } } main();',
            id="shadowed-variable",
        ),
        pytest.param(
            'import { take } from "./selectors.js"; try {} catch (take) { take(); }', id="shadowed-catch"
        ),
        pytest.param(
            'import { take } from "./selectors.js"; for (const take of x) take();', id="shadowed-loop"
        ),
        pytest.param(
            'import { take } from "./selectors.js"; function main() { take(); }',
            id="in-a-function-never-called",
        ),
        pytest.param(
            'import { take } from "./selectors.js"; const main = () => take();', id="in-an-arrow-never-called"
        ),
        pytest.param('import { take } from "./selectors.js"; x.take(); f({ take: 1 });', id="only-the-name"),
        *(
            pytest.param(f'import {{ take }} from "./selectors.js"; {code}', id=name)
            for name, code in {
                "shadowed-by-an-expression": "const m = function take() { take(); }; m();",
                "shadowed-by-a-generator": "f(function* take() { take(); });",
                "shadowed-by-a-class": "f(class take { static x = take(); });",
                "shadowed-in-an-expression": "f(function (take) { take(); });",
                "shadowed-in-a-generator": "function* m(take) { take(); } f(m);",
                "shadowed-in-a-generator-expression": "f(function* (take) { take(); });",
                "shadowed-in-a-method": "f({ m(take) { take(); } });",
                "shadowed-by-a-local-function": "{ function take() {} take(); }",
                "shadowed-by-a-local-generator": "{ function* take() {} take(); }",
                "shadowed-by-a-local-class": "{ class take {} take(); }",
                "shadowed-by-a-local-abstract-class": "{ abstract class take {} f(take); }",
                "shadowed-by-a-local-enumeration": "{ enum take { A } f(take); }",
                "shadowed-by-an-alias": "namespace M { import take = N.x; take(); } f(M);",
                "shadowed-by-var-in-a-loop": "function m() { for (var take of x) {} take(); } m();",
                "shadowed-by-a-nested-pattern": "f(([{ a: [take] }]) => take());",
                "shadowed-by-a-rest": "f((...take) => take());",
                "shadowed-in-a-switch": "switch (x) { case 1: const take = 1; f(take); }",
                "shadowed-in-a-static-block": "f(class { static { const take = 1; f(take); } });",
                "in-a-class-never-used": "class A { m() { take(); } }",
                "in-an-abstract-class-never-used": "abstract class A { m() { take(); } }",
                "in-a-class-value-never-used": "const A = class { m() { take(); } };",
                "in-an-object-never-used": "const o = { m() { take(); } };",
                "in-a-list-never-used": "const l = [() => take()];",
                "in-a-generator-never-called": "function* m() { take(); }",
                "in-a-value-generator-never-called": "const m = function* () { take(); };",
                "in-an-expression-never-called": "const m = function () { take(); };",
                "in-a-function-only-mentioned": "function m() { take(); } m; void m;",
                "written": "take = 1; ({ take } = x); [take] = x;",
            }.items()
        ),
        pytest.param(f'export enum V {{ Id = "{NAME}" }}', id="own-enumeration-unused"),
        pytest.param(f'export const o = {{ id: "{NAME}" }};', id="own-object-unused"),
        pytest.param(f'const K = "{NAME}";', id="own-constant-unused"),
        pytest.param(f"function main() {{ return process.env.{NAME}; }}", id="reads-itself-never-called"),
        pytest.param(f"spawn('x', {{ env: {{ {NAME}: id }} }});", id="sets-it-for-a-child"),
        pytest.param(f"// import {{ take }} from './selectors.js'; take() {NAME}", id="comment"),
        pytest.param(
            f"console.log(\"import {{ take }} from './selectors.js'; process.env.{NAME}\");", id="prose"
        ),
    ],
)
def test_a_reader_that_the_launcher_does_not_reach_makes_the_answer_unknown(launch: str) -> None:
    selectors = f"export function take() {{ return process.env.{NAME}; }} export function other() {{}}"
    found = scan(selectors.encode(), launch.encode())

    assert (found.result, found.reason) == ("unknown", "launch-uses-no-consumer")


@pytest.mark.parametrize(
    ("export", "launch"),
    [
        pytest.param("export = read;", 'import take = require("./selectors"); take();', id="assigned"),
        pytest.param("export = read;", 'import take from "./selectors"; take();', id="assigned-default"),
        pytest.param("export default read;", USES.replace("{ take }", "take"), id="default"),
        pytest.param("export { read as default };", USES.replace("{ take }", "take"), id="default-clause"),
        pytest.param(
            "export default () => read();", USES.replace("{ take }", "take"), id="default-expression"
        ),
        pytest.param(
            "export default async function take() { return read(); }",
            USES.replace("{ take }", "take"),
            id="default-function",
        ),
        pytest.param(
            "export default class { static id = read(); }",
            USES.replace("{ take }", "take"),
            id="default-class",
        ),
        pytest.param(
            "export { read as 'x y' };", "import { 'x y' as t } from './selectors'; t();", id="string"
        ),
    ],
)
def test_every_way_to_export_is_seen(export: str, launch: str) -> None:
    reading = f"function read() {{ return process.env.{NAME}; }} {export}"

    assert judge(reading, launch) == "supported"
    assert judge(reading.replace(NAME, "OTHER"), launch) == "unsupported"  # control


def test_only_the_exported_name_counts() -> None:
    reading = f"export default function take() {{ return process.env.{NAME}; }}"

    assert judge(reading, USES) == "unknown"


def test_the_reason_tells_an_unused_consumer_from_no_consumer() -> None:
    unused = scan(SELECTORS.encode(), b"console.log(1);")
    absent = scan(b"export const x = 1;", LAUNCH.encode())
    own = scan(b"export const x = 1;", f"f(process.env.{NAME});".encode())

    assert (unused.reason, absent.reason) == ("launch-uses-no-consumer", "not-read")
    assert (own.result, own.reason) == ("supported", "launch-reads-variable")


@pytest.mark.parametrize(
    ("selectors", "launch", "reason"),
    [
        pytest.param(None, LAUNCH.encode(), "selectors-missing", id="no-selectors"),
        pytest.param(SELECTORS.encode(), None, "launch-missing", id="no-launch"),
        pytest.param(SELECTORS.encode() + b"\xff", LAUNCH.encode(), "selectors-not-utf8", id="not-utf8"),
        pytest.param(SELECTORS.encode("utf-16"), LAUNCH.encode(), "selectors-not-utf8", id="utf-16"),
        pytest.param(SELECTORS.encode() + b"}", LAUNCH.encode(), "selectors-syntax-error", id="stray-brace"),
        pytest.param(SELECTORS.encode(), b"await (", "launch-syntax-error", id="unclosed"),
        pytest.param(b"<<<<<<< HEAD\n" + SELECTORS.encode(), b"", "selectors-syntax-error", id="conflict"),
        pytest.param(SELECTORS.encode(), b"a\0b", "launch-syntax-error", id="nul"),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\n", b"", "selectors-syntax-error", id="lfs"
        ),
        pytest.param(b" " * (MAX_FILE_BYTES + 1), b"", "selectors-too-large", id="too-large"),
        pytest.param(
            SELECTORS.encode(),
            b"{" * (MAX_DEPTH + 1) + b"}" * (MAX_DEPTH + 1),
            "launch-too-deep",
            id="too-deep",
        ),
    ],
)
def test_a_file_that_cannot_be_understood_makes_the_answer_unknown(
    selectors: bytes | None, launch: bytes | None, reason: str
) -> None:
    found = scan(selectors, launch)

    assert (found.result, found.reason) == ("unknown", reason)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"{a:", id="labels-in-blocks"),
        pytest.param(b"{a:/*}*/", id="closed-in-comments"),
        pytest.param(b"(", id="parentheses"),
        pytest.param(b"[", id="brackets"),
        pytest.param(b"a=>", id="arrows"),
        pytest.param(b"f`${", id="templates"),
        pytest.param(b"if(a)", id="conditions"),
    ],
)
def test_a_source_nested_without_end_is_no_crash(source: bytes) -> None:
    nested = source * (200_000 // len(source))

    assert scan(SELECTORS.encode(), nested).result == "unknown"


def test_the_stack_of_other_threads_stays_as_it_is() -> None:
    before = threading.stack_size(512 * 1024)
    try:
        scan(SELECTORS.encode(), LAUNCH.encode())

        assert threading.stack_size() == 512 * 1024
    finally:
        threading.stack_size(before)


def test_the_longest_file_allowed_is_still_read() -> None:
    padded = LAUNCH.encode().ljust(MAX_FILE_BYTES, b"\n")

    assert scan(SELECTORS.encode(), padded).result == "supported"


def tokens_of(source: str) -> list[str]:
    """Return the source cut where a comment may stand, each piece with the blank that followed it."""
    program = parse(source.encode())
    assert program is not None
    leaves: list[Node] = []
    stack = [program]
    while stack:
        node = stack.pop()
        whole = node.type in {"string", "template_string", "comment", "hash_bang_line"}
        if whole or not node.child_count:
            leaves.append(node)
        else:
            stack.extend(node.children)
    starts = sorted({leaf.start_byte for leaf in leaves if leaf.end_byte > leaf.start_byte})
    data = source.encode()
    return [data[a:b].decode() for a, b in zip([0, *starts[1:]], [*starts[1:], len(data)], strict=True)]


BLANKS = st.sampled_from(["", "", " ", "\t", "  ", "/**/", f"/* {NAME} */", f"/* process.env.{NAME}; ' ` */"])
UNUSED = LAUNCH.replace("takeSelectedId();", '"none";')
COMMENTED = SELECTORS.replace("env[SELECTED]", "env.OTHER")


@pytest.mark.parametrize(
    ("selectors", "launch", "expected"),
    [
        pytest.param(SELECTORS, LAUNCH, "supported", id="real"),
        pytest.param(SELECTORS, UNUSED, "unknown", id="unused-import"),
        pytest.param(COMMENTED, LAUNCH, "unsupported", id="unused-constant"),
    ],
)
@settings(deadline=None)  # a busy machine is no failure
@given(data=st.data())
def test_comments_and_blanks_between_tokens_change_nothing(
    data: st.DataObject, selectors: str, launch: str, expected: str
) -> None:
    changed = []
    for source in (selectors, launch):
        tokens = tokens_of(source)
        blanks = data.draw(st.lists(BLANKS, min_size=len(tokens), max_size=len(tokens)))
        # Nothing may stand before `#!`, so blanks follow their token.
        changed.append("".join(token + blank for token, blank in zip(tokens, blanks, strict=True)))

    assert judge(*changed) == expected
