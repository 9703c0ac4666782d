"""The words by which a harness's text tells why it failed, as data.

The order of the rules and what each is about are upstream's; its text is not published, so the words are
ours. A retry costs money: what leads to one (`transient`) has to name what failed together with how, and a
number counts as an HTTP status only where something says so. Every repetition is bounded, so that hostile
text costs no quadratic time.
"""

import re
from dataclasses import dataclass

from runner_e2e.errors import FailureClass

CLEANUP = "cleanup"
TRANSIENT = "transient"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a line with `words` and without `unless` decides for `failure_class`."""

    name: str
    failure_class: FailureClass
    words: re.Pattern[str]
    unless: re.Pattern[str] | None = None

    def matches(self, line: str) -> bool:
        """Whether one line, without its harmless phrases, is of this rule."""
        return self.words.search(line) is not None and (
            self.unless is None or self.unless.search(line) is None
        )


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.ASCII)


_TIMED_OUT = r"(?:timed?[ _-]?out|timeout)"
_WORDS = r"(?:\s+[\w'/-]{1,30})"  # so many words between two that belong together
_BEFORE_STATUS = (
    r"\bHTTP(?:/\d(?:\.\d)?)?|\bstatus(?:[ _-]?code)?|\b(?:error|response|http)[ _-]?code|\berror|\"code\""
)
# Not `got` and `received`, by which a matcher tells what it found.
_ANSWERED = r"\b(?:returned|responded\s+with|answered(?:\s+with)?|replied\s+with|failed\s+with)"


def _status(codes: str) -> tuple[str, str]:
    """Return patterns of an HTTP status: it stands after what is one, or ends what was answered."""
    number = rf"(?:{codes})(?![\w%]|[.,-]\d|\s+of\b)"
    return (
        rf"(?:{_BEFORE_STATUS})(?:\s+(?:is|was|of))?[\s:=(\"']{{0,4}}{number}",
        rf"{_ANSWERED}(?:\s+an?)?(?:\s+HTTP)?\s+{number}(?=\s*(?:$|[.,;:)\]-]))",
    )


_CREDENTIAL = (
    r"(?:(?:[\w-]{1,30}[ _-])?credentials?|(?:[\w-]{1,30}[ _-])?(?:api[ _-]?keys?|access[ _-]?tokens?)"
    r"|\w{2,40}_(?:TOKEN|AUTH_JSON))\b"
)
_SECRETS = r"(?:secrets?|credentials?|keys?|tokens?|passwords?|values?)"
_BAD = r"\b(?:missing|invalid|incorrect|expired|revoked|unset|wrong)"

# Of what failed only, with these words and no others before it is said how: a sentence that names both
# far apart mostly says something else.
_SUBJECT = r"\b(?:network|provider|server|browser|sandbox|harness)"
_BESIDE = (
    r"(?:[\W_]{1,3}(?:s|requests?|connections?|calls?|response|stream|process|socket|websocket|transport|api|start|"
    r"startup|launch|boot|creation|provisioning|health|check|session|page|context|or|itself|error"
    r"|has|have|had|been|was|is|were|unexpectedly|prematurely|operation)){0,5}"
)
_NOT_A_SETTING = r"(?![\w-]|\s*[:=]\s*(?:\d|none|null|undefined|off|false|default))"
_LEADING_TO = (
    r"(?:\s+(?:while|of|for|to|waiting|when|after|connecting|connect|contacting|contact|reaching|reach|launching"
    r"|launch|starting|start|opening|open|the|a|from|by|in)){1,4}\s+"
)
_READINESS = (
    r"(?!\w|[-_.]\w|\s+to\s+(?:show|display|render|say|mark|list)|\s*(?:text|state|name|label|field))"
)

RULES = (
    Rule(
        "observed-state-timeout",
        # Its own class is "state read, never matched"; where none was read, the later rules decide.
        FailureClass.CANDIDATE_FAILURE,
        _any(
            r"observed[ _-]?state[ _-]?timeout",
            rf"observed[ _-]state{_WORDS}{{0,6}}?\s+{_TIMED_OUT}",
            rf"{_TIMED_OUT}\b.{{0,200}}?\b(?:last[ _-])?observed\s+(?:state|status)",
        ),
        _any(
            r"never\s+(?:been\s+)?(?:read|observed)\b",
            r"(?:could|can)\s*not\s+be\s+(?:read|observed)",
            r"no\s+(?:observed\s+)?state\s+(?:was|could|has|read|observed)",
            r"observed\s+(?:state|status)\W{1,3}(?:none|null|undefined|unknown|unavailable)\b",
        ),
    ),
    Rule(
        "browser-bootstrap",
        FailureClass.TRANSIENT_INFRASTRUCTURE,
        _any(
            rf"\bbrowser\s+bootstrap{_WORDS}{{0,4}}?\s+(?:failed|failure|error|{_TIMED_OUT})"
            r".{0,200}?\bbefore\b.{0,60}?\b(?:task|issue)\b",
            r"\b(?:failed|failure)\b.{0,60}?\bbrowser\s+bootstrap\b"
            r".{0,200}?\bbefore\b.{0,60}?\b(?:task|issue)\b",
            r"\bbefore\b.{0,60}?\b(?:task|issue)\b.{0,200}?\bbrowser\s+bootstrap\b.{0,60}?\bfail",
        ),
    ),
    Rule(
        "secret-leak",
        FailureClass.SECRET_LEAK,
        _any(
            r"\b(?:secrets?|credentials?|(?:api[ _-]?)?keys?|tokens?)[ _-]leak",
            rf"\bleak(?:ed|s|ing)?\b{_WORDS}{{0,3}}?\s+(?:secrets?|credentials?|api[ _-]?keys?)\b",
            rf"\b(?:secrets?|credentials?|api[ _-]?keys?)\b{_WORDS}{{0,3}}?\s+leaked\b",
            rf"\bplain[ -]?text\b{_WORDS}{{0,3}}?\s+{_SECRETS}\b",
            rf"\b{_SECRETS}\b{_WORDS}{{0,5}}?\s+plain[ -]?text\b",
            r"\bunredacted\b",
            rf"\bredact(?:ion|ed)?\b{_WORDS}{{0,4}}?[\s:]+"
            r"(?:failed|failure|error|incomplete|impossible|refused)\b",
            r"\b(?:failed|could\s+not\s+be|unable|not|cannot)(?:\s+to)?(?:\s+be)?\s+redact",
        ),
    ),
    Rule(
        CLEANUP,
        FailureClass.CLEANUP_FAILURE,
        _any(
            r"(?<![\w./-])clean(?:ing)?[ -]?up(?![\w/-]|\.\w)",
            r"(?<![\w./-])tear(?:ing)?[ -]?down(?![\w/-]|\.\w)",
            r"\bleases?\s+releas",
            rf"\breleas(?:e|ing)\b{_WORDS}{{0,3}}?\s+leases?\b",
            rf"\bleases?\b{_WORDS}{{0,3}}?\s+not\s+released\b",
        ),
    ),
    Rule(
        "permanent",
        FailureClass.PERMANENT_INFRASTRUCTURE,
        _any(
            rf"{_BAD}(?:[ _-]or[ _-]\w{{1,10}})?{_WORDS}{{0,3}}?[\s:_,-]{{1,3}}{_CREDENTIAL}",
            rf"(?<!\w){_CREDENTIAL}{_WORDS}{{0,3}}?\s*:?\s+"
            r"(?:missing|invalid|incorrect|expired|revoked|unset|rejected|required"
            r"|not\s+(?:set|found|configured|valid))\b",
            r"\bno\s+(?:valid\s+)?credentials?\s+(?:for|found|provided|configured|available|set)\b",
            r"\bauthentication[ _](?:failed|error|required)\b",
            r"(?<![\w.-])unauthori[sz]ed(?![\w-])",
            r"(?<![\w.-])forbidden(?![\w-])",
            *_status("401|403"),
            r"\b(?:not\s+|un)qualified\b",
            rf"\bqualification\b{_WORDS}{{0,3}}?[\s:]+(?:required|needed|missing|failed|pending|expired|mismatch|refused"
            r"|rejected|invalid|not)\b",
            rf"\b(?:requires?|needs?|missing|without|explicit|lacks?|invalid|conflicting){_WORDS}{{0,3}}?"
            r"\s+qualification\b",
            rf"\bunsupported{_WORDS}{{0,2}}?\s+model\b",
            r"\bmodel(?:\s+\S{1,80}){0,2}?\s+(?:not\s+supported|unsupported)\b",
            r"\bmodel_not_(?:found|supported)\b",
            rf"\bincompatible{_WORDS}{{0,3}}?\s+artifacts?\b",
            rf"\bartifacts?{_WORDS}{{0,3}}?\s+incompatible\b",
            rf"\bremote\s+runner{_WORDS}{{0,3}}?\s+(?:unavailable|not\s+available|missing|not\s+found)\b",
            r"\bunavailable\s+remote\s+runner\b",
            r"\bimage\s+digest\b",
        ),
    ),
    Rule(
        "product-defect",
        FailureClass.CANDIDATE_FAILURE,
        _any(
            r"\bidle[ _-]?state\s+invariant\b",
            r"\b40P01\b",
            r"\bauthority\s+deadlock\b",
            r"\binvalid_authority\b",
            rf"\bunrecoverable{_WORDS}{{0,2}}?\s+session[ _-]clos",
            rf"\bsession[ _-]clos\w{{0,5}}{_WORDS}{{0,4}}?\s+unrecoverable\b",
            rf"\bnon-?\s?retr[iy]?able{_WORDS}{{0,2}}?\s+ACPX\s+(?:session\s+)?open",
            r"\bACPX\s+(?:session\s+)?open\b.{0,120}?\b(?:non-?\s?retr[iy]?able|not\s+retr[iy]?able)\b",
            r"\bACPX\s+(?:session\s+)?open\b.{0,120}?\bretryable\W{1,4}false\b",
        ),
    ),
    Rule(
        TRANSIENT,
        FailureClass.TRANSIENT_INFRASTRUCTURE,
        _any(
            *_status(r"429|5\d\d"),
            r"\b(?:429|5\d\d)\s+(?:too\s+many\s+requests|internal\s+server\s+error|bad\s+gateway"
            r"|service\s+(?:temporarily\s+)?unavailable|gateway\s+time-?out|rate[ -]limit)",
            r"\b(?:too\s+many\s+requests|bad\s+gateway|service\s+(?:temporarily\s+)?unavailable|gateway\s+time-?out)\b",
            r"(?<![\w-])rate[ _-]?limit(?:s|ed|ing)?(?:_(?:error|exceeded))?(?![\w-])",
            r"\bRateLimit(?:Exceeded)?Error\b",
            r"\b(?:ECONNRESET|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)\b",
            r"\bERR_CONNECTION_(?:RESET|REFUSED|CLOSED|TIMED_OUT)\b",
            r"\b(?:socket|connection|server|peer|provider)\s+h[au]ng[ -]?up\b",
            r"\bconnection\s+(?:was\s+)?(?:reset|refused)\b",
            r"\bfetch\s+failed\b",
            rf"{_SUBJECT}{_BESIDE}[\W_]{{1,3}}(?:{_TIMED_OUT}|closed|failed){_NOT_A_SETTING}",
            rf"\b(?:{_TIMED_OUT}|failed){_LEADING_TO}{_SUBJECT}{_READINESS}",
        ),
    ),
)

# Phrases that are about none of it. They are taken out of a line before any rule looks at it.
HARMLESS = _any(
    r"\b(?:no|zero|0|without)\s+(?:\w{1,20}\s+){0,2}?leak(?:s|ed|age)?\b",
    r"\b(?:no|zero|0|without)\s+(?:\w{1,20}\s+){0,2}?plain[ -]?text\s+\w{1,20}",
    r"\b(?:clean[ -]?up|tear[ -]?down|leases?\s+releas(?:ed?|ing)|redaction|qualification)\"?\s*"
    r"(?:[:=]|is|was|has)?\s*\"?(?:passed|succeeded|successful(?:ly)?|complete[sd]?|done|ok|finished"
    r"|not[ _]started|skipped|start(?:s|ed|ing)|began|begins)\b",
    r"\bleases?\s+(?:was\s+|were\s+)?released\b",
    r"\btimeout(?:_?ms|_?s|_?seconds)?\"?\s*[:=]\s*(?:\d{1,12}|none|null|undefined|off|false|default)\b",
    r"\bx-ratelimit-[\w-]{1,40}",
    r"\b(?:no|without|below|under)\s+(?:\w{1,20}\s+){0,2}?rate[ -]?limit(?:s|ed|ing)?\b",
    r"\brate[ -]?limit(?:s|ing)?\s*(?:[:=(]|is|of)?\s*"
    r"(?:\d{1,9}|ok|fine|none|off|not|disabled|resets?|remaining|window)\b",
    # Numbers that are no status: how many, how long, which one.
    r"\b\d{1,9}\s*(?:ms|s|secs?|seconds|minutes|tests?|lines?|tokens?|bytes|[kmg]i?b|rows?|items?|files?"
    r"|results?|records?|messages?|times?|requests|errors|failures|characters|chars|points|%)(?!\w)",
    r"\b(?:ports?|pids?|lines?|tokens?|exit\s+(?:code|status)|exited\s+with(?:\s+(?:code|status))?|took|count"
    r"|total|size|bytes|duration)\W{1,3}\d{1,9}\b",
    r"\b(?:failed|failures|errors)\"?\s*[:=]\s*0\b|\b0\s+(?:failed|failures|errors)\b",
    r"\bforbidden\s+(?:words?|phrases?|patterns?|texts?|(?:sub)?strings?|files?|paths?|tools?|names?"
    r"|characters?)\b",
    r"\bclosed\s+(?:cleanly|normally|gracefully|successfully|as\s+expected)\b",
    r"\bimage\s+digest\"?\s*(?:[:=]\s*\S{1,200}|verified|matches|ok)(?=\s*$)",
)

# What a line of output has to say to count: a harness also tells what goes well. Text that is known to be
# an error needs none of it.
TROUBLE = _any(
    r"\berr(?:or|ors|ed)?\b|error\b|error[:_]|\bERR_",
    r"fail|fatal|exception|panic|invalid|missing|mismatch|violat|deadlock|exceed|abort|refus|reject|denied",
    r"\bcan(?:not|'t)\b|\bcould\s?n[o']t\b|\bunable\b|\bun(?:handled|caught|authori|available|supported|recover"
    r"|qualified|redacted|expected)",
    rf"\bincompatible\b|\bforbidden\b|{_TIMED_OUT}|\bleak|\bhang\s?up\b|\bhung\s?up\b|\bECONN|\bETIMEDOUT|\b40P01\b"
    r"|\bEAI_AGAIN|\bE(?:NET|HOST)UNREACH",
    r"\bnot\s+(?:set|found|released|qualified|supported|redacted|retryable)\b|\bstill\s+running\b",
    r"\btoo\s+many\s+requests\b|\bbad\s+gateway\b|\blimited\b|\b(?:40[13]|429|5\d\d)\b|\binvariant\b",
)
