//! The internal client of the hosting API: wire types, domain types, errors, pages, secrets.
