"""The network authority: which destinations a plugin instance may reach, and the only place that opens its connections.

Decisions are pure: a request, the policy in force and the addresses that were resolved make a decision with a reason, a
trace and, where configuration helps, what to change. The dialer connects to nothing but the addresses of a decision.
"""
