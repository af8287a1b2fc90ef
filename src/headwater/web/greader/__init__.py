"""The Google Reader API, as newsboat, NetNewsWire, Read You, Fluent Reader, RSS Guard, Liferea, Capy and Vienna use it.

FreshRSS' server is what clients are written against; docs/greader.md says what each of them needs.
"""
