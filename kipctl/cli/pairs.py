"""Options that take any number of NAME=VALUE words, as in Kafka's tools."""

PAIR_OPTIONS = (
    "--command-property",
    "--producer-props",
    "--producer-property",
    "--consumer-property",
)


def spread_pairs(arguments: list[str]) -> list[str]:
    """Repeat a pair option before each further NAME=VALUE word, as the parser wants it."""
    spread: list[str] = []
    option, values = "", 0
    for word in arguments:
        if word in PAIR_OPTIONS:
            option, values = word, 0
        elif option and not word.startswith("-") and "=" in word:
            if values:
                spread.append(option)
            values += 1
        else:
            option = ""
        spread.append(word)
    return spread
