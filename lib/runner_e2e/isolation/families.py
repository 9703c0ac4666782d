"""Names that no child may see, in any spelling: what the product's own lists do not know. Pure.

A case's name, the workflow's authority, foreign credentials, what makes a program run foreign code, and
what moves a run's data out of the places that are hidden.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runner_e2e.isolation.variables import BACKUP_DIRECTORY, CAMPAIGN_ID, EXECUTION_IDS, SELECTED_ID, fold


@dataclass(frozen=True, slots=True)
class Family:
    """Names and prefixes, in upper case, with the reason that they share."""

    reason: str
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def has(self, folded: str) -> bool:
        """Whether a folded name belongs here."""
        return folded in self.names or folded.startswith(self.prefixes)


def _family(reason: str, names: str = "", prefixes: str = "") -> Family:
    return Family(reason, frozenset(names.split()), tuple(prefixes.split()))


CASE_NAMES = Family("it names the case", frozenset({SELECTED_ID, EXECUTION_IDS, CAMPAIGN_ID}))
CODE_INJECTION = _family(
    "it makes a program run foreign code",
    "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE BASH_ENV ENV ZDOTDIR PROMPT_COMMAND SHELLOPTS BASHOPTS"
    " PS4 PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONBREAKPOINT PYTHONINSPECT PYTHONUSERBASE PYTHONWARNINGS"
    " PERL5LIB PERL5OPT PERL5DB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS"
    " GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_EDITOR"
    " GIT_SEQUENCE_EDITOR GIT_PAGER GCONV_PATH GLIBC_TUNABLES OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES",
    "LD_ DYLD_ BASH_FUNC_",
)
DATA_MOVERS = _family(
    "it moves a run's data out of what is hidden",
    "PAPERCLIP_RUNNER_STATE_DIR RUN_LOG_BASE_PATH WORKSPACE_OPERATION_LOG_BASE_PATH PROVIDER_TRACE_BASE_PATH"
    f" {BACKUP_DIRECTORY}",
)
FAMILIES = (
    CASE_NAMES,
    _family("it is authority over the workflow's artifacts, caches and identity", prefixes="ACTIONS_"),
    _family("it is the CI runner's own", prefixes="RUNNER_ INPUT_ STATE_"),
    _family("it is GitHub's: a token, or a file that the workflow obeys", "GITHUB GH", "GITHUB_ GH_"),
    _family(
        "it belongs to a provider",
        "CLAUDE_CODE_OAUTH_TOKEN CODEX_API_KEY",
        "GEMINI_ GOOGLE_ MISTRAL_ GROQ_ DEEPSEEK_ COHERE_ TOGETHER_ MOONSHOT_ ZAI_ HF_ HUGGINGFACE_ AZURE_",
    ),
    _family("it opens a vault", prefixes="AWS_ PAPERCLIP_SECRETS_AWS_"),
    _family(
        "it is a credential of a registry, a cluster or git, or says where one lies",
        "NPM_TOKEN NODE_AUTH_TOKEN DOCKER_AUTH_CONFIG DOCKER_CONFIG KUBECONFIG VAULT_TOKEN SSH_AUTH_SOCK"
        " GIT_ASKPASS SSH_ASKPASS GIT_CONFIG NETRC",
        "NPM_CONFIG_ PNPM_CONFIG_ YARN_ PIP_ UV_ TWINE_ GIT_CONFIG_ CARGO_REGISTR POETRY_HTTP_BASIC_ "
        "POETRY_PYPI_TOKEN_",
    ),
    CODE_INJECTION,
    _family("it is a database client's", prefixes="PG"),
    DATA_MOVERS,
)
# Our own switches, the selected id among them: nothing below a harness reads them.
HARNESS_OWN = _family("it is the harness's own", prefixes="PAPERCLIP_RUNNER_E2E_")

# A place for downloads: of all that configures npm, the one that says nothing about who may fetch what.
_HARMLESS = frozenset({"NPM_CONFIG_CACHE"})

_ID_TOKEN = frozenset({"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"})


def find_family(name: str, families: Iterable[Family] = FAMILIES) -> Family | None:
    """Return the family that a name, in any spelling, belongs to."""
    folded = fold(name)
    if folded in _HARMLESS:
        return None
    return next((family for family in families if family.has(folded)), None)


def find_id_token_names(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names through which a job can ask for its identity; a paid cell does not run with them."""
    return (name for name, value in environ.items() if value and fold(name) in _ID_TOKEN)
