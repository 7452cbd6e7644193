"""Why a broker cannot be reached, in the operating system's words, which asyncio replaces."""

import os
import re
import ssl

_NUMBERS = re.compile(r"\[Errno (\d+)\]")


def cause_of(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    numbers = [error.errno] if error.errno is not None else _NUMBERS.findall(str(error))
    told = {os.strerror(number) for number in map(int, numbers) if number > 0}
    # Errors of name resolution have negative numbers, and their own texts.
    return " or ".join(sorted(told)) or error.strerror or str(error) or type(error).__name__
