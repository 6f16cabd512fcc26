"""The neighbours of the declared prompt that `prompt_choice.py` compares it with: one thing changed in each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from batch_assets.domain.spec import Example, PromptSpec

# Text, category, an entity of it, summary.
SECOND: Final = (
    ("how do i change my password and email", "account_access", "email", "Customer wants to change the password."),
    ("I forgot the PIN of my card and now it is blocked", "card", "PIN", "Customer forgot the PIN of a card."),
    ("My top up was declined. Is there a limit?", "payment_transfer", "top up", "A top-up was declined."),
    ("You charged me twice, please return one of them.", "refund_dispute", "charge", "Customer was charged twice."),
    ("A man from the bank got my code. Now 900 is gone!", "fraud", "900", "Customer was tricked by a caller."),
    ("Why was my mortgage application rejected?", "loan_credit", "mortgage", "A mortgage application was rejected."),
    ("Order 5512 arrived broken, send a new lamp.", "booking_order", "5512", "Customer received a broken lamp."),
    ("Your team was very kind today, thank you.", "other", "team", "Customer thanks the team."),
)
FOREIGN: Final = (
    (
        "Ich habe mein Passwort vergessen und komme nicht in mein Konto.",
        "account_access",
        "Konto",
        "Password forgotten.",
    ),
    ("Ma carte ne fonctionne plus, je voudrais une nouvelle.", "card", "carte", "Customer wants a new card."),
    ("¿Por qué mi transferencia sigue pendiente?", "payment_transfer", "transferencia", "A transfer is pending."),
    ("Vorrei il rimborso, mi avete addebitato due volte 30 euro.", "refund_dispute", "30 euro", "Charged twice."),
    ("有人盗用了我的账户,我没有做过这笔交易!", "fraud", "账户", "Customer did not make a payment."),
    ("Quero fazer um empréstimo de 5.000 euros, qual é a taxa?", "loan_credit", "5.000 euros", "Asks for a loan."),
    ("Mein Flug wurde verschoben, ich brauche eine andere Buchung.", "booking_order", "Flug", "Needs another flight."),
    ("Dzień dobry, w jakich godzinach jest otwarty oddział?", "other", "oddział", "Asks for the opening hours."),
)
LONG_SYSTEM: Final = """You sort messages that customers send to a company. Answer with one JSON object.
"category" is one of:
account_access: login, password, verification, personal details, closing an account
card: delivery, activation, PIN, lost, broken or blocked card
payment_transfer: transfers, top-ups, direct debits, limits, fees for transfers
refund_dispute: refunds, wrong or double charges, complaints about fees
fraud: stolen money, payments that the customer did not make, scams
loan_credit: loans, mortgages, credit score, debt
booking_order: rooms, flights, tables, parcels, orders, repairs
other: anything else
"entities" lists names, amounts and numbers. "summary" is one sentence. "urgent" is true if money is being lost now."""


def shapes(declared: PromptSpec) -> dict[str, PromptSpec]:
    """Return the declared prompt, first, and its neighbours by name."""
    second = tuple(_example(*row) for row in SECOND)
    foreign = tuple(_example(*row) for row in FOREIGN)
    return {
        "as declared": declared,
        "no examples": replace(declared, examples=()),
        "no examples, long instruction": replace(declared, system=LONG_SYSTEM, examples=()),
        "long instruction": replace(declared, system=LONG_SYSTEM),
        "no instruction": replace(declared, system=""),
        "first four examples": replace(declared, examples=declared.examples[:4]),
        "examples reversed": replace(declared, examples=declared.examples[::-1]),
        "other eight examples": replace(declared, examples=second),
        "eight in other languages": replace(declared, examples=foreign),
        "sixteen examples": replace(declared, examples=declared.examples + second),
        "sixteen, half in other languages": replace(declared, examples=foreign + declared.examples),
    }


def _example(text: str, category: str, entity: str, summary: str) -> Example:
    answer = {"category": category, "entities": [entity], "summary": summary, "urgent": category == "fraud"}
    return Example(user=text, assistant=json.dumps(answer, separators=(",", ":"), ensure_ascii=False))
