"""What the links of pages lead to: each kind of address once, and none outside a prefix."""

import re

import httpx

_LINK = re.compile(r'(?:href|src|action)="([^"#][^"]*)"|url\("?(?!data:)([^")]+)')
_NUMBER = re.compile(r"\d+")
_FOLLOWED = 3


async def crawled(client: httpx.AsyncClient, start: str, origin: str) -> set[str]:
    """The paths that links lead to, with their queries; each answers, and is below `start`.

    Of addresses that differ in numbers and queries alone, one is asked. `origin` is how browsers
    see where the client asks.
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
