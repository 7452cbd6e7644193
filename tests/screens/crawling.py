"""A crawl of the screens that fails on a link outside their prefix.

Example:
    seen = await crawled(browser, "/ops/", "https://inbox.example")
"""

import re

import httpx

_LINK = re.compile(r'(?:href|src|action)="([^"#][^"]*)"|url\("?(?!data:)([^")]+)')
_NUMBER = re.compile(r"\d+")
_FOLLOWED = 3


async def crawled(client: httpx.AsyncClient, start: str, origin: str) -> set[str]:
    """Follow all links from `start` except the sign-out; return the paths with their queries.

    Each path answers 200 and is below `start`. Of paths that differ only in numbers, one without a
    query and one with a query is opened. `origin` is the address of the screens in a browser.
    """
    seen, alike, ahead = set[str](), set[tuple[str, bool]](), [start]
    while ahead:
        path = ahead.pop()
        address, _, query = path.partition("?")
        if (shape := (_NUMBER.sub("0", address), bool(query))) in alike:
            continue
        alike.add(shape)
        seen.add(path)
        answer = await client.get(path)
        for _ in range(_FOLLOWED):
            if answer.has_redirect_location:
                location = answer.headers["location"]
                assert location.startswith(start), location
                answer = await client.get(location)
        assert answer.status_code == httpx.codes.OK, path
        if not answer.headers["content-type"].startswith(("text/html", "text/css")):
            continue
        for found in _LINK.finditer(answer.text):
            link = found[1] or found[2]
            target = httpx.URL(f"{origin}{path}").join(link.replace("&amp;", "&"))
            assert f"{target.scheme}://{target.netloc.decode()}" == origin, link
            assert target.path.startswith(start), link
            if not target.path.endswith("/sign-out"):
                ahead.insert(0, target.raw_path.decode())
    return seen
