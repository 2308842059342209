"""The one error that reaches people without a traceback, and what it says of others."""

import errno
import os


class UserError(Exception):
    """What the person at the command line can mend: one sentence, exit code 2."""


def reason(error: BaseException) -> str:
    """What the operating system found wrong, however deep it is in a message, or its first line."""
    message = str(error)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES):
        if os.strerror(number) in message:
            return os.strerror(number)
    return message.strip().partition("\n")[0] or type(error).__name__
