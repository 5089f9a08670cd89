"""Logins of Amazon MSK's IAM: who signs, for which region, and the token that AWS's signer makes.

The options are those of AWS's clients (`MSKCredentialProvider` of aws-msk-iam-auth). What signs is
the library that AWS keeps, which comes with `kipctl[msk]`; the credentials are those that it finds
where it runs: in the environment, in profiles, of the machine.
"""

import base64
import os
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qs, urlsplit

from kipctl.at_once import LateError, at_once
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.extras import require
from kipctl.redaction import text_without_secrets

if TYPE_CHECKING:
    from kipctl.security.tokens import MskToken, Token

MECHANISM = "AWS_MSK_IAM"
CLASSES = "software.amazon.msk.auth.iam."
"""Of AWS's clients, Java's, begin so."""
LOGIN_HANDLER = f"{CLASSES}IAMOAuthBearerLoginCallbackHandler"
_SIGNER = "aws_msk_iam_sasl_signer"
_HOST = re.compile(r".+\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:\d+")
"""docs.aws.amazon.com/msk: how bootstrap brokers are named."""
_PROFILES = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
"""As botocore reads them, the first first."""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/\S+")
_SECRETS = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_SESSION = "kipctl"
_TIMEOUT_S = 10.0
_LONGEST = 300


def msk_token(
    options: Mapping[str, str], servers: str, variables: Mapping[str, str] = os.environ
) -> "MskToken":
    """Whose token is asked for by these options of `sasl.jaas.config`, for MSK's brokers there.

    Raises UsageError for what is wrong, for a region that nothing names, and without the signer.
    """
    from kipctl.security.tokens import MskToken

    require(_SIGNER, f"A login by IAM ({MECHANISM})")
    profile, role = options.get("awsProfileName", ""), options.get("awsRoleArn", "")
    if profile and role:
        raise UsageError(
            "awsProfileName and awsRoleArn of sasl.jaas.config name two identities.",
            "Give one; a profile can have a role_arn of its own.",
        )
    if role and not _ROLE.fullmatch(role):
        raise UsageError(
            f"awsRoleArn={role} of sasl.jaas.config is no role.",
            "It is written as arn:aws:iam::123456789012:role/NAME.",
        )
    if secrets := [name for name in _SECRETS if name in options]:
        raise UsageError(
            f"{secrets[0]} of sasl.jaas.config is not read by kipctl.",
            "Leave it out, and give the key as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    return MskToken(
        _region(servers, variables),
        profile,
        role,
        options.get("awsRoleSessionName", "") or _SESSION,
        options.get("awsRoleExternalId", ""),
        options.get("awsStsRegion", ""),
    )


def java_library(variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What Java's clients need beside Kafka's jars: all of CLASSPATH, if AWS's library is in it.

    There AWS's documentation has it put, and Kafka's own scripts look for it.
    """
    entries = [entry for entry in variables.get("CLASSPATH", "").split(os.pathsep) if entry]
    is_there = any("aws-msk-iam-auth" in os.path.basename(entry) for entry in entries)
    return tuple(entries) if is_there else ()


def strangers(servers: str) -> list[str]:
    """Of `host:port,host:port` those that have no name of MSK's."""
    named = (server.strip() for server in servers.split(","))
    return [server for server in named if server and not _HOST.fullmatch(server.lower())]


def _region(servers: str, variables: Mapping[str, str]) -> str:
    """By the brokers' names; where they have others, as behind a tunnel, by the environment."""
    named = (_HOST.fullmatch(server.strip().lower()) for server in servers.split(","))
    regions = [*dict.fromkeys(str(match[1]) for match in named if match)]
    if len(regions) > 1:
        raise UsageError(
            f"The brokers' names are of {' and '.join(regions)}: IAM's token is for one region.",
            "Name the brokers of one cluster.",
        )
    for region in (*regions, *map(variables.get, _REGIONS)):
        if region:
            return region
    raise UsageError(
        f"Of which AWS region {servers or 'the cluster'} is cannot be told: no broker's name ends"
        " with .kafka.REGION.amazonaws.com.",
        f"Set {_REGIONS[0]}.",
    )


def fetched(source: "MskToken") -> "Token":
    """A new token, within 10 s.

    Raises UsageError without credentials or the signer, RefusedError where AWS refuses them, and
    UnreachableError where it does not answer.
    """
    require(_SIGNER, f"A login by IAM ({MECHANISM})")
    (token,) = at_once(_signed, (source,), _TIMEOUT_S)
    if isinstance(token, LateError):
        raise UnreachableError(
            f"AWS gives no credentials {source.of_whom} within {_TIMEOUT_S:g} s.",
            "Check the network to its endpoints, or set AWS_ACCESS_KEY_ID.",
        )
    if isinstance(token, KipctlError):
        raise token
    return token


def key_id(token: str) -> str:
    """The access key that has signed a token: it is no secret. Empty for what is no such token."""
    try:
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        said: str = parse_qs(urlsplit(url).query)["X-Amz-Credential"][0]
    except (ValueError, KeyError):
        return ""
    return said.partition("/")[0]


def _signed(source: "MskToken") -> "Token":
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    from botocore import exceptions
    from botocore.credentials import CredentialProvider, ProcessProvider

    from kipctl.security.tokens import Token

    try:
        credentials, ends_s = _credentials(source)

        class Known(CredentialProvider):  # type: ignore[misc]
            def load(self) -> Any:
                return credentials

        text, expires_ms = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
            source.region, Known()
        )
    except KipctlError:
        raise
    except exceptions.ProfileNotFound:
        raise UsageError(
            f"AWS's configuration has no profile {_profile(source)!r}.",
            "See which there are: aws configure list-profiles",
        ) from None
    except exceptions.ClientError as refused:
        raise RefusedError(
            f"AWS gives no credentials {source.of_whom}: {_said(refused)}.",
            "Check that those which ask for them may assume the role, and are not over.",
        ) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as failed:
        raise UnreachableError(
            f"AWS gives no credentials {source.of_whom}: {_said(failed)}.",
            "Check the network to its endpoints.",
        ) from None
    except exceptions.CredentialRetrievalError as failed:  # it quotes what was answered
        by = failed.kwargs["provider"]
        if by != ProcessProvider.METHOD:
            raise _none(source, f"{by} gives none") from None
        raise UsageError(
            f"The credential_process that the AWS profile {_profile(source)!r} goes by failed; what"
            " it wrote is not shown, as that may have secrets.",
            "Run it yourself, as it is in: aws configure get credential_process --profile"
            f" {shlex.quote(_profile(source))}",
        ) from None
    except (exceptions.BotoCoreError, OSError) as failed:
        raise _none(source, _said(failed)) from None
    except Exception as failed:  # undeclared, as of an answer that cannot be read, which it quotes
        raise _none(source, type(failed).__name__) from None
    return Token(text, min(filter(None, (expires_ms / 1000, ends_s))))


def _none(source: "MskToken", why: str) -> UsageError:
    return UsageError(
        f"There are no AWS credentials {source.of_whom}: {why}.",
        "See whether it works there: aws sts get-caller-identity",
    )


def _profile(source: "MskToken") -> str:
    """Whose name AWS's library reads in its configuration."""
    named = (source.profile, *map(os.environ.get, _PROFILES), "default")
    return next(filter(None, named))


def _credentials(source: "MskToken") -> tuple[Any, float | None]:
    """Credentials as they are now, and until when they are good in seconds (None: for ever)."""
    from botocore.config import Config
    from botocore.credentials import (
        AssumeRoleProvider,
        ReadOnlyCredentials,
        create_credential_resolver,
    )
    from botocore.session import Session

    def ask(prompt: str) -> NoReturn:
        raise UsageError(
            f"The AWS profile {_profile(source)!r} wants the code of an MFA device, which kipctl"
            " does not ask for.",
            "Log in first, and leave awsProfileName out:"
            ' eval "$(aws configure export-credentials --profile'
            f' {shlex.quote(_profile(source))} --format env)"',
        )

    session = Session(profile=source.profile or None)
    region = source.sts_region or source.region
    resolver = create_credential_resolver(session, region_name=region if source.role_arn else None)
    # Else it reads the terminal, beside kipctl's own questions; its public ways set no other.
    resolver.get_provider(AssumeRoleProvider.METHOD)._prompter = ask
    session.register_component("credential_provider", resolver)
    if source.role_arn:
        quickly = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})
        sts = session.create_client("sts", region_name=region, config=quickly)
        external = {"ExternalId": source.external_id} if source.external_id else {}
        given = sts.assume_role(
            RoleArn=source.role_arn, RoleSessionName=source.session_name, **external
        )["Credentials"]
        parts = (given[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
        return ReadOnlyCredentials(*parts), given["Expiration"].timestamp()
    credentials = session.get_credentials()
    if credentials is None:
        raise UsageError(
            f"There are no AWS credentials {source.of_whom}: not in the environment, in no profile,"
            " and the machine has none.",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or log in: aws sso"
            " login",
        )
    known = credentials.get_frozen_credentials()
    ends = getattr(credentials, "_expiry_time", None)  # which botocore shows nowhere else
    return known, ends and ends.timestamp()


def _said(error: Exception) -> str:
    """In one line, and not long; nothing that is known to be a secret."""
    text = " ".join(text_without_secrets(str(error)).split()) or type(error).__name__
    return text[:_LONGEST].rstrip(".")
