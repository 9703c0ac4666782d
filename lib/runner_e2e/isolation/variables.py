"""The names that environment rules are about: tables, prefixes and patterns. Pure data.

The groups are the product's own; its comparisons respect case, and so do these tables. What no child may
see in any spelling is in `families`.
"""

import re

CREDENTIAL_NAMES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENROUTER_API_KEY",
    "KIMI_MODEL_API_KEY",
    "XAI_API_KEY",
    "GROK_AUTH_JSON",
    "GEMINI_API_KEY",
    "DAYTONA_API_KEY",
    "CURSOR_AUTH_TOKEN",
    "COPILOT_GITHUB_TOKEN",
)
DAYTONA_CREDENTIAL = "DAYTONA_API_KEY"

POSTGRES_ADMIN_URL = "PAPERCLIP_RUNNER_E2E_POSTGRES_ADMIN_URL"
DATABASE_URL = "DATABASE_URL"
DATABASE = (DATABASE_URL, "DATABASE_MIGRATION_URL", POSTGRES_ADMIN_URL)

CANDIDATE_ADMISSION = "PAPERCLIP_ACPX_CANDIDATE_ADMISSION"
GATEWAY_BASE_URL = "PAPERCLIP_E2E_GATEWAY_BASE_URL"
GATEWAY_TOKEN = "PAPERCLIP_E2E_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
GATEWAY_PHASE_PATH = "PAPERCLIP_E2E_GATEWAY_PHASE_PATH"
RELAY_URL = "PAPERCLIP_E2E_OTLP_RELAY_URL"
REMOTE_GATEWAY_ORIGIN = "PAPERCLIP_E2E_REMOTE_GATEWAY_ORIGIN"
MASTER_KEY = "PAPERCLIP_SECRETS_MASTER_KEY"
MASTER_KEY_FILE = "PAPERCLIP_SECRETS_MASTER_KEY_FILE"
AMBIENT_PAPERCLIP = (
    "PAPERCLIP_API_KEY",
    CANDIDATE_ADMISSION,
    "PAPERCLIP_AGENT_API_KEY",
    "PAPERCLIP_TASK_BRIDGE_TOKEN",
    GATEWAY_TOKEN,
    GATEWAY_PHASE_PATH,
    RELAY_URL,
    REMOTE_GATEWAY_ORIGIN,
    "PAPERCLIP_SETUP_TOKEN",
    MASTER_KEY,
    MASTER_KEY_FILE,
)

# 48 random bytes each, base64url, made for each attempt.
GENERATED_SECRETS = (
    "PAPERCLIP_AGENT_JWT_SECRET",
    "PAPERCLIP_DECISION_SIGNING_SECRET",
    "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET",
    "BETTER_AUTH_SECRET",
)

EXTERNAL_STATE = (
    "PAPERCLIP_STORAGE_S3_BUCKET",
    "PAPERCLIP_STORAGE_S3_REGION",
    "PAPERCLIP_STORAGE_S3_ENDPOINT",
    "PAPERCLIP_STORAGE_S3_PREFIX",
    "PAPERCLIP_STORAGE_S3_FORCE_PATH_STYLE",
)
STORAGE_PROVIDER = "PAPERCLIP_STORAGE_PROVIDER"

INSTALLED_CLI = (
    "PAPERCLIP_RUNNER_E2E_INSTALLED_CLI",
    "PAPERCLIP_RUNNER_E2E_INSTALLED_CLI_SHA256",
    "PAPERCLIP_RUNNER_E2E_INSTALLED_SERVER_ROOT",
    "PAPERCLIP_RUNNER_E2E_INSTALLED_SERVER_SHA256",
)
INSTALLED_PLUGIN = (
    "PAPERCLIP_RUNNER_E2E_INSTALLED_DAYTONA_PLUGIN",
    "PAPERCLIP_RUNNER_E2E_INSTALLED_DAYTONA_PLUGIN_AUTHORITY",
    "PAPERCLIP_RUNNER_E2E_INSTALLED_DAYTONA_PLUGIN_AUTHORITY_SHA256",
)
UPGRADE_ARTIFACTS = "PAPERCLIP_RUNNER_E2E_UPGRADE_ARTIFACTS"

VAULT_PREFIXES = ("AWS_", "PAPERCLIP_SECRETS_AWS_")

RUNNER_BINARY = "PAPERCLIP_RUNNER_BINARY"
REMOTE_RUNNER_BINARY = "PAPERCLIP_RUNNER_REMOTE_BINARY_PATH"
QUALIFICATION = "PAPERCLIP_RUNNER_ACPX_QUALIFICATION"
ANNOUNCEMENTS_ENABLED = "PAPERCLIP_ANNOUNCEMENTS_ENABLED"
ANNOUNCEMENTS_FEED_URL = "PAPERCLIP_ANNOUNCEMENTS_FEED_URL"
API_TOOLS_ENABLED = "PAPERCLIP_RUNNER_API_TOOLS_ENABLED"
ALLOW_ALL_MODELS = "OPENCODE_ALLOW_ALL_MODELS"

SELECTED_ID = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
EXECUTION_IDS = "PAPERCLIP_RUNNER_E2E_EXECUTION_IDS"
CAMPAIGN_ID = "PAPERCLIP_E2E_CAMPAIGN_ID"
BACKUP_DIRECTORY = "PAPERCLIP_DB_BACKUP_DIR"

# JavaScript's `$` is the end of the text; Python's would also match before a last line break.
_PROVIDER = re.compile(
    r"(?:OPENAI|ANTHROPIC|OPENROUTER|BRAINTRUST|DAYTONA|XAI|GROK|KIMI|CURSOR|COPILOT|GITHUB|GH)(?:_|\Z)"
)
_AUTHORITY_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")

# Words of a name whose value lets somebody in; short ones only where they are a word of their own.
_SECRET_WORDS = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|PRIVATE|SIGNATURE|JWT"
    r"|AUTH(?!ORS?(?![A-Z]))|KEYS?(?![A-Z])|(?<![A-Z])(PASS|PWD|PATS?|SAS|DSN)(?![A-Z])"
)

# What JavaScript trims; Python's own set differs in both directions.
BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def fold(name: str) -> str:
    """Return the spelling that all spellings of a name share, in upper case."""
    return name.casefold().upper()


def is_provider_name(name: str) -> bool:
    """Whether a name is a provider's or GitHub's, in upper case as it is read."""
    return _PROVIDER.match(name) is not None


def is_provider_authority(name: str) -> bool:
    """Whether a name is a provider's and says that its value lets somebody in."""
    return is_provider_name(name) and any(word in name for word in _AUTHORITY_WORDS)


def is_secret_name(name: str) -> bool:
    """Whether a name, in any spelling, says that its value lets somebody in."""
    return _SECRET_WORDS.search(fold(name)) is not None


def is_blank(value: str | None) -> bool:
    """Whether a value is missing, empty or nothing but what JavaScript trims."""
    return value is None or not value.strip(BLANKS)
