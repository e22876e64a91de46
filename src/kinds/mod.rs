//! What users write: one file per kind, with spec, status, CEL rules and columns.
