"""Credentials of AWS's that nobody has, as an environment gives them, and no others."""

from pathlib import Path

KEY_ID, SECRET, SESSION = (
    "AKIDEXAMPLE",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "FwoG+session/x=",
)
REGION = "eu-west-1"
SERVERS = f"b-1.shop.x0x0x0.c2.kafka.{REGION}.amazonaws.com:9098"


def environment(folder: Path, session: str = "") -> dict[str, str]:
    """Of one who has the key; the machine's own profiles and roles are out of sight."""
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        **({"AWS_SESSION_TOKEN": session} if session else {}),
        "AWS_CONFIG_FILE": str(folder / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLASSPATH": "",
        "NO_PROXY": "*",
    }
