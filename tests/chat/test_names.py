"""People are called by their names, wherever they are shown."""

from agent.domain.events import Accepted, Ended, EventBody, Started, WorkerEvent
from agent.domain.runs import Outcome, RunState
from tests.chat.conftest import Chat

CSV = b"age,health,visited_doctor\n30,good,yes\n"


async def test_who_asked_who_decided_and_who_stopped_are_named(chat: Chat) -> None:
    alice = chat.slack.user("alice")
    async with chat.open() as brain:
        files = [chat.slack.file("visits.csv", CSV)]
        asked = alice.mention("train a model that predicts visited_doctor", files=files)
        card = await chat.seen(asked.ts, "Approve")
        assert "asked by Alice ·" in card.shown
        assert alice.id not in card.shown
        approval = card.buttons["Approve"]["value"].split(":")[2]
        alice.click(card, "Approve")
        await chat.seen(asked.ts, "Approved by Alice ·")
        alice.say(f"approve {approval}", thread=asked.ts)
        await chat.seen(asked.ts, "decided by Alice before")
        ((run, attempt),) = await brain.stores.runs.live()

        async def says(seq: int, body: EventBody) -> None:
            event = WorkerEvent(
                run=run.id, attempt=attempt.number, seq=seq, host="gpu-1", at=chat.clock.now(), body=body
            )
            await brain.service.take([event])

        await says(1, Accepted(boot_id="b"))
        await says(2, Started(model="m", total_steps=9))
        alice.say(f"stop {run.id}", thread=asked.ts)
        await chat.seen(asked.ts, "Stopped by Alice.", "stopping")
        await says(3, Ended(outcome=Outcome(state=RunState.STOPPED, reason="Stopped on request.")))
        await chat.seen(asked.ts, f"Run `{run.id}` was stopped by Alice.")
