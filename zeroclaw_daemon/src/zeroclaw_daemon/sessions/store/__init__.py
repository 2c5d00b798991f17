"""What outlives a live session: conversations in database files, one file for each mode.

``acp`` is the store of one mode as a program uses it, from a thread, ``chat`` that of the other, ``base`` what they do alike;
``facade`` both from the event loop. Below them: ``turn_rows`` (a turn while it runs, and its recovery) and ``transcript`` of ``acp``, ``chat_rows`` of ``chat``;
``entries`` (what a client sees, by page, pure), ``folding`` (events to pieces to messages, pure), ``payloads`` (what the columns of
JSON hold), ``searching`` (words to look for, pure), ``file`` (a database and its transactions), ``schema`` and ``chat_schema`` over
``layout``, ``points`` (every moment at which something is written).

Two things are kept of a conversation and never mixed up (RPC-132): the transcript, rows that are only ever appended to, and the
retained context, which is what the model is given next. A turn that runs is a checkpoint: its events, each written before
anybody hears of it. Its end moves it into the transcript; a turn whose end was never written is moved there by recovery.

The order in which a daemon uses it, whatever fails on the way:

- a turn: ``begin`` before any model is asked; ``append`` and ``reduce`` each before the client is told of it; ``finish`` before the
  client is told that the turn is over. Where one of them fails, or the turn ended without anything to go on from, the live session
  goes and the checkpoint stays: the next prompt takes the session up again by ``resume``.
- kill and delete: the running turn is told to stop, its permit is waited for, the store is asked, and only then does the live
  session go. Where the store fails, an idle session stays live; one whose turn had to be given up is gone already, and its row
  waits for the store to work again.
- close asks the store nothing.

A chat has no checkpoint: its prompt is written by ``begin``, a plan when it is made, and everything else of its turn by ``finish``.
"""
