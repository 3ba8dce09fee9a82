"""Texts that hosts may say, to break out of what they are written into."""

from __future__ import annotations

HOSTILE = {
    "element": "</script><script>window.owned = 1</script>",
    "handler": "<img src=x onerror='window.owned = 1'>",
    "comment": "--></script><!--<script>window.owned = 1</script>",
    "cdata": "]]></system-out><testcase name='owned'/><![CDATA[",
    "attribute": "\"' onclick='window.owned=1' x=\"",
    "entities": "&lt;script&gt; &amp; &#x3c; %3Cscript%3E \\u003cscript\\u003e",
    "template": "$title ${js} {{ 7 * 7 }} {% x %} `${window.owned = 1}`",
    "steering": "\x1b[31m\x1b]0;owned\x07\x00\x08\x7f\x9b31m\r\n",
    "turning": "a\u202eb\u2066c\u200f\u2028d\u2029e\ufefff",
    "no text": "\udc80\udcff\ud800",
    "no characters": "\ufffe\uffff\U0001ffff",
    "markdown": "`` ` ``` ```` | a | b |\n# owned\n- [x](javascript:owned) ![](http://owned.example/x.png) @everyone #1 <b> **x** \\|",
    "fence": "```\n</details>\n~~~\n\n    code\n---\n===",
    "link": "https://owned.example/ www.owned.example ops@owned.example [a]: http://owned.example",
    "metric": 'x"} 1\nrunbook_owned{a="b"} 1\n# EOF\n\\',
}  # fmt: skip
