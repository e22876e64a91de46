//! The hosting API as a server: a state machine over virtual time, its routes, faults and ledger.
