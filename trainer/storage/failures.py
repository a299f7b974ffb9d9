"""Every failure of an S3 store as one line. Nothing of a request is repeated: it may hold secrets."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import urllib3.exceptions
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from trainer.errors import ExitCode, InputError
from trainer.location import S3Url

# Failures of the connection: the same request may succeed a moment later.
CONNECTION = (
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.IncompleteReadError,
    urllib3.exceptions.HTTPError,
)
# What boto3 raises on answers that are none of S3's: parts that are missing or of another form.
NOT_S3 = (ResponseParserError, ValueError, KeyError)
# boto3 asks for the region of a bucket that redirects, and for that of the redirection, without end.
REDIRECTED = RecursionError
FAILURES = (boto.BotoCoreError, boto.ClientError, urllib3.exceptions.HTTPError, *NOT_S3, REDIRECTED)
# The most telling class first: several of them are derived from each other.
REASONS = (
    (boto.SSLError, "the certificate or the TLS version is not accepted"),
    (boto.ProxyConnectionError, "the proxy does not answer"),
    (boto.ConnectTimeoutError, "no answer in time"),
    (boto.ReadTimeoutError, "it stalls"),
    (boto.EndpointConnectionError, "refused, or the host is not known"),
    (
        (
            boto.IncompleteReadError,
            boto.ResponseStreamingError,
            boto.ConnectionClosedError,
            urllib3.exceptions.ProtocolError,
        ),
        "cut",
    ),
)
CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
RENEW = "renew or correct the credentials (variables, profile or role)"
REGION = "set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL to its endpoint"
ALLOW = "allow these credentials s3:ListBucket on the bucket and s3:GetObject on its objects"
FREE = "free some space in the store or raise its quota"
FIND = "check bucket and key, and the endpoint (AWS_ENDPOINT_URL)"
LATER = "run the same command again later: it goes on from there"

# Error code of the store -> what it means, what to do. Answers to HEAD carry the bare status.
ANSWERS = {
    "NoSuchBucket": ("there is no such bucket", FIND),
    "NoSuchKey": ("there is no such object", FIND),
    "404": ("there is no such object, or no such bucket", FIND),
    "AccessDenied": ("access denied", ALLOW),
    "AllAccessDisabled": ("access denied", ALLOW),
    "403": ("access denied, or the credentials are refused", ALLOW),
    "InvalidAccessKeyId": ("the store does not know the access key", RENEW),
    "SignatureDoesNotMatch": ("the secret key does not fit the access key", RENEW),
    "ExpiredToken": ("the credentials have expired", RENEW),
    "InvalidToken": ("the session token is refused", RENEW),
    "RequestTimeTooSkewed": ("this machine's clock is wrong", "set the clock"),
    "BadDigest": ("the bytes that arrived have another checksum", LATER),
    "XAmzContentSHA256Mismatch": ("the bytes that arrived have another checksum", LATER),
    "QuotaExceeded": ("the store is full", FREE),
    "InsufficientCapacity": ("the store is full", FREE),
    "XMinioStorageFull": ("the store is full", FREE),
    "XMinioAdminBucketQuotaExceeded": ("the bucket is full", FREE),
    "507": ("the store is full", FREE),
    "NoSuchUpload": ("the upload was aborted by another process", LATER),
    "InvalidObjectState": ("the object is archived", "restore it in the store first"),
    "PermanentRedirect": ("the bucket is in another region", REGION),
    "AuthorizationHeaderMalformed": ("the bucket is in another region", REGION),
    "IllegalLocationConstraintException": ("the bucket is in another region", REGION),
    "301": ("the bucket is in another region", REGION),
    "307": ("the bucket is in another region", REGION),
}


class TryLaterError(InputError):
    """What may pass without anyone's doing: exit code 75, the plan tries again."""

    exit_code = ExitCode.INTERRUPTED


@contextmanager
def explained(url: S3Url, endpoint: str, allow: str = ALLOW) -> Iterator[None]:
    """Turns any failure of boto3 in the block into an InputError that names the URL.

    TryLaterError if the same request may succeed later. `allow` says which permissions the caller's requests
    need.
    """
    try:
        yield
    except FAILURES as error:
        what, do = explain(error, endpoint)
        do = allow if do == ALLOW else do
        kind = TryLaterError if _may_pass(error) else InputError
        raise kind(what, where=str(url), do=do) from error


def explain(error: Exception, endpoint: str) -> tuple[str, str]:
    """What happened, and what to do about it."""
    if isinstance(error, boto.ClientError):
        return _answer(error)
    if isinstance(error, CONNECTION):
        return f"no connection to {endpoint}: {reason(error)}", "check the network and AWS_ENDPOINT_URL"
    if isinstance(error, REDIRECTED):
        return f"{endpoint} redirects every request", "set AWS_ENDPOINT_URL to where it redirects"
    if isinstance(error, NOT_S3):
        return f"{endpoint} does not answer like an S3 store", "check AWS_ENDPOINT_URL"
    if isinstance(error, boto.NoCredentialsError):
        return "no credentials found", CREDENTIALS
    if isinstance(error, boto.ProfileNotFound):
        return "the profile of AWS_PROFILE does not exist", "check ~/.aws/config"
    # Credentials that are incomplete or cannot be fetched, a bad region, a damaged settings file.
    return (
        f"the AWS settings are not usable ({type(error).__name__})",
        "check profile, region, keys and AWS_ENDPOINT_URL",
    )


def reason(error: Exception) -> str:
    """Why a connection failed, in a few words."""
    return next((text for kind, text in REASONS if isinstance(error, kind)), type(error).__name__)


def status_of(error: boto.ClientError) -> int:
    """HTTP status of the store's answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _may_pass(error: Exception) -> bool:
    if isinstance(error, boto.ClientError):
        return status_of(error) >= 500 or status_of(error) == 429
    return isinstance(error, CONNECTION)


def _answer(error: boto.ClientError) -> tuple[str, str]:
    status, code = status_of(error), str(error.response.get("Error", {}).get("Code", ""))
    # A code is a word of the store's choice; what does not look like one is not repeated.
    code = code if re.fullmatch(r"[A-Za-z0-9.]{1,60}", code) else ""
    if code not in ANSWERS and (status >= 500 or status == 429):
        # boto3 makes 500 of an answer that it cannot read.
        if code in ("", str(status)):
            what = f"the store answers with an error, or is no S3 store (HTTP {status})"
            return what, f"check AWS_ENDPOINT_URL, or {LATER}"
        return f"the store answers {code} (HTTP {status})", LATER
    if code not in ANSWERS and str(status) in ANSWERS and status != 403:
        return ANSWERS[str(status)]
    what, do = ANSWERS.get(code, (f"the store refuses the request: {code or 'no reason given'}", RENEW))
    region = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
    if do == REGION and re.fullmatch(r"[a-z0-9-]{1,40}", region):
        what += f", {region}"
    return f"{what} (HTTP {status})", do
