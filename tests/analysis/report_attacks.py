"""Texts that would break a page, or do something in it, if they were anything but text."""

ATTACKS = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "--><svg onload=window.hacked=3><!--",
    '"><a href="javascript:window.hacked=4">click</a>',
    "\x1b[2J\x1b[31mred\x07",
    "safe\u202egnp.exe\u2066\u200b",
    "{{body}} {{chunks}} ${1+1} `window.hacked=5`",
    "</style><style>body { display: none }</style>",
    "</textarea></title><iframe src='https://example.com/leak'></iframe>",
    "\u2028\u2029\ud83d\ude00 \x00 ]]> &lt;b&gt;".encode("utf-16", "surrogatepass").decode("utf-16"),
)
