"""Signatures follow Standard Webhooks, and only requests with the right one are trusted."""

import base64

import pytest

from recrawl.errors import WebhookRefused
from recrawl.service.webhooks import make_webhook_secret, verify_webhook
from recrawl.service.webhooks.signatures import signature_headers, webhook_secret_bytes

# The test vector that the libraries of Standard Webhooks publish.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE}


def test_the_published_vector() -> None:
    assert signature_headers([SECRET], ID, AT, BODY) == HEADERS
    assert verify_webhook(SECRET, HEADERS, BODY, now_seconds=AT) == ID


def test_names_of_headers_may_be_in_capitals() -> None:
    headers = {name.title(): value for name, value in HEADERS.items()}
    assert verify_webhook(SECRET, headers, BODY, now_seconds=AT + 299.9) == ID


def test_old_and_new_secrets_fit_while_one_replaces_the_other() -> None:
    new = make_webhook_secret()
    headers = signature_headers([new, SECRET], ID, AT, BODY)
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (new, SECRET, [make_webhook_secret(), new]):
        assert verify_webhook(secret, headers, BODY, now_seconds=AT) == ID


@pytest.mark.parametrize(
    ("changes", "body", "now", "problem"),
    [
        ({}, BODY + b" ", AT, "no signature fits"),
        ({"webhook-id": "msg_other"}, BODY, AT, "no signature fits"),
        ({"webhook-timestamp": str(AT + 1)}, BODY, AT, "no signature fits"),
        ({"webhook-signature": SIGNATURE.replace("v1,", "v1a,")}, BODY, AT, "no signature fits"),
        ({"webhook-signature": SIGNATURE[3:]}, BODY, AT, "no signature fits"),
        ({"webhook-signature": "é" + SIGNATURE}, BODY, AT, "no signature fits"),
        ({"webhook-signature": ""}, BODY, AT, "no header webhook-signature"),
        ({"webhook-signature": "v1, " * 1_000 + SIGNATURE}, BODY, AT, "no header"),
        ({"webhook-id": ""}, BODY, AT, "no header webhook-id"),
        ({"webhook-timestamp": "1614265330.5"}, BODY, AT, "not a number"),
        ({"webhook-timestamp": "-1614265330"}, BODY, AT, "not a number"),
        ({"webhook-timestamp": "٣"}, BODY, AT, "not a number"),
        ({}, BODY, AT + 301, "301 s ago"),
        ({}, BODY, AT - 301, "ahead of this clock"),
    ],
)
def test_other_requests_are_refused(
    changes: dict[str, str], body: bytes, now: float, problem: str
) -> None:
    with pytest.raises(WebhookRefused, match=problem):
        verify_webhook(SECRET, HEADERS | changes, body, now_seconds=now)


def test_another_secret_does_not_fit() -> None:
    with pytest.raises(WebhookRefused, match="no signature fits"):
        verify_webhook(make_webhook_secret(), HEADERS, BODY, now_seconds=AT)
    with pytest.raises(WebhookRefused, match="signed"):
        verify_webhook(SECRET, HEADERS, BODY)  # now, by the system's clock


def test_secrets_are_random_and_checked() -> None:
    secrets = {make_webhook_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(webhook_secret_bytes(one)) for one in secrets} == {32}
    for n_bytes in (1, 23, 65):
        wrong = "whsec_" + base64.b64encode(bytes(n_bytes)).decode()
        with pytest.raises(ValueError, match="24 to 64") as caught:
            webhook_secret_bytes(wrong)
        assert wrong not in str(caught.value)
    for wrong in ("", "secret", SECRET.removeprefix("whsec_"), "whsec_!" + SECRET[6:]):
        with pytest.raises(ValueError, match="24 to 64"):
            webhook_secret_bytes(wrong)
