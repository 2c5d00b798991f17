"""The stores of a daemon's sessions, and what keeps and records the sessions of each mode in them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zeroclaw_daemon.sessions.journal import AcpJournal, ChatJournal, Journals
from zeroclaw_daemon.sessions.keeping import Keepers, KeepsAcp, KeepsChats
from zeroclaw_daemon.sessions.live import ChatMode
from zeroclaw_daemon.sessions.store.acp import AcpStore
from zeroclaw_daemon.sessions.store.chat import ChatStore
from zeroclaw_daemon.sessions.store.facade import AcpSessions, ChatSessions
from zeroclaw_daemon.sessions.store.points import StoreSteps

ACP_FILE: Final = "acp-sessions.db"
CHAT_FILE: Final = "sessions.db"


class DurableSessions:
    """Both stores, for the tasks of one event loop. A file is made when it is first used.

    :param acp: the conversations of ``acp`` sessions.
    :param chats: those of ``chat`` sessions.
    """

    def __init__(self, acp: AcpStore, chats: ChatStore) -> None:
        self._stores = (acp, chats)
        self.acp = AcpSessions(acp)
        self.chats = ChatSessions(chats)
        self.keepers: Keepers = {ChatMode.ACP: KeepsAcp(self.acp), ChatMode.CHAT: KeepsChats(self.chats)}
        self.journals: Journals = {
            ChatMode.ACP: AcpJournal(self.acp),
            ChatMode.CHAT: ChatJournal(self.chats),
        }

    @classmethod
    def at(cls, directory: Path, steps: StoreSteps | None = None) -> DurableSessions:
        """The stores in this directory, which is made when it is needed."""
        return cls(AcpStore(directory / ACP_FILE, steps=steps), ChatStore(directory / CHAT_FILE, steps=steps))

    def close(self) -> None:
        """Close the databases, once nothing uses them any more. A later use opens them again."""
        for store in self._stores:
            store.close()
