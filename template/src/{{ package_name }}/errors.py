"""The one error that reaches people without a traceback."""


class UserError(Exception):
    """What the person at the command line can mend: one sentence, exit code 2."""
